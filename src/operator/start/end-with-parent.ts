import { isMainThread } from "node:worker_threads";
import { lockFile } from "./exclusive-file.ts";

/** How long to wait until the wrangler of an earlier, killed `npm start` has ended. */
const PATIENCE_MS = 5_000;

const LOCK_VARIABLE = "STORE_ORDERS_WRANGLER_LOCK";

// Node loads this file before wrangler's own code, and again in each worker thread of wrangler.
if (isMainThread) {
  holdStore();
  endWithParent();
}

/** Locks the store until wrangler ends, because wrangler can run longer than `npm start`. */
function holdStore(): void {
  const path = process.env[LOCK_VARIABLE];
  if (path === undefined) return;
  // wrangler passes its environment variables to a child process. Without this variable, the child
  // process does not try to take the lock.
  delete process.env[LOCK_VARIABLE];
  const lock = lockFile(path, PATIENCE_MS);
  if (lock === null) {
    process.stderr.write("[ERROR] another wrangler still serves the store\n");
    process.exit(1);
  }
  // The listener keeps a reference to the lock, so that it is not garbage-collected and released.
  process.once("exit", () => lock.release());
}

/**
 * Kills the whole process group when `npm start` ends, because workerd would keep running without
 * wrangler. Standard input is a pipe from `npm start`. The operating system closes this pipe even
 * after SIGKILL.
 */
function endWithParent(): void {
  const endGroup = (): void => void process.kill(0, "SIGKILL");
  process.stdin.once("end", endGroup).once("error", endGroup).resume().unref();
}
