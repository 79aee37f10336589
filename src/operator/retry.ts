import pRetry, { type Options } from "p-retry";

/**
 * Runs `work` again after failures, with the pauses of `options`, as p-retry does. All pauses of
 * commands between attempts are made here, so that tests can shorten them in one place.
 */
export function retry<T>(work: () => Promise<T>, options: Options): Promise<T> {
  return pRetry(work, options);
}
