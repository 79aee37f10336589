import pRetry from "p-retry";

const PATIENCE_MS = 30_000;

/** A lock that D1 meets after a statement, even a SELECT, it reports as an internal error only. */
const BUSY = /SQLITE_BUSY|database is locked|internal error; reference/;

/**
 * Repeats `work` with growing pauses while another process holds the lock of the local database, for
 * half a minute at most. SQLite refuses before it changes anything, so that a repetition is safe.
 *
 * @throws what `work` throws, once it is something else or the time is over.
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

/** Whether an error says that another process holds SQLite's lock. */
export function isBusy(error: unknown): boolean {
  return error instanceof Error && BUSY.test(error.message);
}
