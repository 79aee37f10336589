import { retry } from "../retry.ts";

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
