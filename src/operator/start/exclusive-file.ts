import { DatabaseSync } from "node:sqlite";

const SQLITE_BUSY = 5;

/** A lock on a file. It lasts until `release` is called or this process ends. */
export interface ExclusiveFile {
  release(): void;
}

/**
 * Locks a file against other processes with SQLite's lock. The operating system releases the lock
 * when the process ends, even if the process is killed. Blocks the thread while it waits.
 *
 * @param path the path of the file. Creates the file if it is missing, but never writes to it.
 * @param timeoutMs how long to wait for another process.
 * @returns `null` if another process still holds the lock.
 * @throws an Error if the file cannot be opened.
 */
export function lockFile(path: string, timeoutMs: number): ExclusiveFile | null {
  const database = new DatabaseSync(path, { timeout: timeoutMs });
  try {
    database.exec("BEGIN EXCLUSIVE");
  } catch (error) {
    database.close();
    if (Object(error).errcode === SQLITE_BUSY) return null;
    throw error;
  }
  return { release: () => database.close() };
}
