import { DatabaseSync } from "node:sqlite";

const SQLITE_BUSY = 5;

/** Holds a file until it is released or this process ends. */
export interface ExclusiveFile {
  release(): void;
}

/**
 * Locks a file against other processes with SQLite's lock. The operating system releases it however
 * the process ends, so a killed process leaves no lock behind. Blocks the thread while it waits.
 *
 * @param path the file, created if it is missing; nothing is ever written to it.
 * @param timeoutMs how long to wait for another process.
 * @returns `null` if another process still holds the file.
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
