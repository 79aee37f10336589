import { pause } from "../deadline.ts";

/**
 * Matches the errors of a local D1 while a command locks its file. A statement that fails with such
 * an error has had no effect, so it can be repeated. D1 on Cloudflare has no such errors.
 */
const LOCKED = /SQLITE_BUSY|SQLITE_LOCKED|database is locked|Failed to get session commit token/;

/**
 * An error by which a local D1 may hide that its file is locked. The statement may have been
 * executed, so only reads are repeated. The number of attempts is small, because D1 on Cloudflare
 * reports the same error in an outage, and requests should then fail soon.
 */
const HIDDEN = /internal error; reference/;
const HIDDEN_ATTEMPTS = 5;

const LONGEST_PAUSE_MS = 500;

/** Runs a query again while a command locks the file of a local database, until `isOver`. */
export async function waitForFile<T>(
  query: () => Promise<T>,
  { isRead, isOver }: { readonly isRead: boolean; readonly isOver: () => boolean },
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await query();
    } catch (error) {
      const text = messages(error);
      const isHidden = isRead && attempt < HIDDEN_ATTEMPTS && HIDDEN.test(text);
      if (!isHidden && !LOCKED.test(text)) throw error;
      await pause(Math.min(LONGEST_PAUSE_MS, 20 * 2 ** attempt) * Math.random());
      if (isOver()) throw error;
    }
  }
}

/** Returns the messages of an error and its causes, because D1 wraps the errors of SQLite. */
export function messages(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause === undefined ? error.message : `${error.message} ${messages(error.cause)}`;
}
