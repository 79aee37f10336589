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

/** Matches errors about SQLite's lock; a local D1 may report an internal error instead. */
const BUSY = /SQLITE_BUSY|database is locked|internal error; reference/;

/**
 * Retries `work` for up to 30 seconds while another process locks the local database. A retry is
 * safe, because SQLite checks the lock before it changes anything.
 *
 * @throws an Error for the operator if the lock lasts longer; other errors of `work` unchanged.
 */
export function retryWhileBusy<T>(work: () => Promise<T>): Promise<T> {
  const shouldRetry = ({ error }: { readonly error: Error }) => BUSY.test(error.message);
  const pauses = { minTimeout: 10, maxTimeout: 100, randomize: true, maxRetryTime: 30_000 };
  return retry(work, { ...pauses, retries: Infinity, shouldRetry }).catch((cause: Error) => {
    if (!BUSY.test(cause.message)) throw cause;
    throw new Error("another process has locked the database for 30 seconds: try again", { cause });
  });
}
