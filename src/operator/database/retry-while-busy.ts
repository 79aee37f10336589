import pRetry from "p-retry";

const PATIENCE_MS = 30_000;

/** Matches errors about SQLite's lock; a local D1 may report an internal error instead. */
const BUSY = /SQLITE_BUSY|database is locked|internal error; reference/;

/**
 * Retries `work` for up to 30 seconds while another process locks the local database. A retry is
 * safe, because SQLite checks the lock before it changes anything.
 *
 * @throws an Error for the operator if the lock lasts longer; other errors of `work` unchanged.
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
