import pRetry from "p-retry";

const PATIENCE_MS = 30_000;

/** D1 reports a lock that it finds only after the statement as an internal error. */
const BUSY = /SQLITE_BUSY|database is locked|internal error; reference/;

/**
 * Repeats `work` with growing pauses while another process locks the local database, for half a
 * minute at most. Repeating is safe, because SQLite refuses before it changes anything.
 *
 * @throws the error of `work` if it is another one; an Error for the operator when the time is
 *   over.
 */
export async function retryWhileBusy<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await pRetry(work, {
      retries: Infinity,
      minTimeout: 10,
      maxTimeout: 100,
      randomize: true,
      maxRetryTime: PATIENCE_MS,
      shouldRetry: ({ error }) => isBusy(error),
    });
  } catch (error) {
    if (!isBusy(error)) throw error;
    throw new Error(
      `the database has been locked by another process for ${PATIENCE_MS / 1000} seconds (${(error as Error).message}); try again later`,
      { cause: error },
    );
  }
}

/** Returns whether an error means that another process holds SQLite's lock. */
export function isBusy(error: unknown): boolean {
  return error instanceof Error && BUSY.test(error.message);
}
