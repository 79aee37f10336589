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
  const patience = { retries: Infinity, minTimeout: 10, maxTimeout: 100, randomize: true };
  const shouldRetry = ({ error }: { error: Error }) => isBusy(error);
  try {
    return await pRetry(work, { ...patience, maxRetryTime: PATIENCE_MS, shouldRetry });
  } catch (cause) {
    if (!isBusy(cause)) throw cause;
    throw new Error(
      `the database has been locked by another process for ${PATIENCE_MS / 1000} seconds: try again later`,
      { cause },
    );
  }
}

/** Returns whether an error means that another process holds SQLite's lock. */
export function isBusy(error: unknown): boolean {
  return error instanceof Error && BUSY.test(error.message);
}
