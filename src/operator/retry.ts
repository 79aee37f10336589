import { setTimeout as delay } from "node:timers/promises";
import pRetry, { type Options } from "p-retry";

/**
 * Runs `work` again after failures, with the pauses of `options`, as p-retry does. All pauses of
 * commands between attempts are made here, so that tests can shorten them in one place.
 */
export function retry<T>(work: () => Promise<T>, options: Options): Promise<T> {
  return pRetry(work, options);
}

/** Waits for `ms`, or until `signal` is aborted, and then throws. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return delay(ms, undefined, { signal });
}
