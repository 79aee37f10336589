import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { makeOwnFolder, ownFolder } from "../database/local-store.ts";

const SQLITE_BUSY = 5;
/** The file with the process id and port of the service that holds the lock. */
const HOLDER = "service.json";

/**
 * Locks a store until this process ends, because two services would admit too many requests. SQLite's
 * lock on an empty file ends even if the process is killed. Makes the store's folder.
 *
 * @throws an Error for the operator that names the process of a service that runs on the store.
 */
export function lockStore(store: string, port: number): void {
  const own = makeOwnFolder(store);
  // Waits up to a second, as in `requireFreePort`: an earlier service may be ending.
  const lock = new DatabaseSync(join(own, "service.lock"), { timeout: 1_000 });
  try {
    lock.exec("BEGIN EXCLUSIVE");
  } catch (error) {
    if (Object(error).errcode !== SQLITE_BUSY) throw error;
    const { pid = "(unknown)", port: other = "(unknown)" } = readHolder(store) ?? {};
    const holder = `process ${pid} already serves the store ${store} on port ${other}`;
    const advice =
      "end it first, or serve another store on another port (--persist-to DIR --port N)";
    throw new Error(`${holder}: ${advice}`, { cause: error });
  }
  const file = join(own, HOLDER);
  writeFileSync(file, JSON.stringify({ pid: process.pid, port }));
  process.once("exit", () => {
    rmSync(file, { force: true });
    // This reference keeps the lock from being garbage-collected and released.
    lock.close();
  });
}

/** Returns the id and port of the running process that serves a store; `null` if unknown. */
export function readHolder(store: string): Record<"pid" | "port", number> | null {
  try {
    const holder = JSON.parse(readFileSync(join(ownFolder(store), HOLDER), "utf8"));
    // Throws if the process has ended without deleting the file.
    process.kill(holder.pid, 0);
    return holder;
  } catch {
    return null;
  }
}
