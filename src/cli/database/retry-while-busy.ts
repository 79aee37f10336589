import pRetry from "p-retry";

const PATIENCE_MS = 30_000;

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
      maxTimeout: 500,
      randomize: true,
      maxRetryTime: PATIENCE_MS,
      shouldRetry: ({ error }) => isBusy(error),
    });
  } catch (error) {
    if (!isBusy(error)) throw error;
    throw new Error(
      `the database is locked by another process for more than ${PATIENCE_MS / 1000} seconds; nothing was changed, try again later`,
      { cause: error },
    );
  }
}

/** Whether an error says that another process holds SQLite's lock. */
export function isBusy(error: unknown): boolean {
  return error instanceof Error && /SQLITE_BUSY|database is locked/.test(error.message);
}
