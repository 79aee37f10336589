/**
 * The errors of a local D1, whose database is a file, while a command has locked the file. `Failed
 * to get session commit token`: the file was locked between a statement and its commit. The
 * statement has not been executed.
 */
const LOCKED = /SQLITE_BUSY|SQLITE_LOCKED|database is locked|Failed to get session commit token/;

/**
 * An error by which a local D1 may hide that its file is locked. The statement may have been
 * executed, so only reads are repeated, and only a few times: D1 on Cloudflare, which repeats reads
 * itself, has the same error in an outage, when requests should fail soon.
 */
const HIDDEN = /internal error; reference/;
const HIDDEN_ATTEMPTS = 5;

/**
 * Returns whether a query may succeed if it is sent again, because a command had locked the file of
 * the local database. Always false for errors that only D1 on Cloudflare has.
 *
 * @param message the messages of the error and its causes.
 * @param attempt the number of times that the query was sent.
 */
export function isFileLocked(message: string, isRead: boolean, attempt: number): boolean {
  return LOCKED.test(message) || (isRead && attempt < HIDDEN_ATTEMPTS && HIDDEN.test(message));
}
