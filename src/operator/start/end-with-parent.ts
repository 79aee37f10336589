import { isMainThread } from "node:worker_threads";
import { lockFile } from "./exclusive-file.ts";

/** Time for the wrangler of a killed `start` to end. */
const PATIENCE_MS = 5_000;

const LOCK_VARIABLE = "STORE_ORDERS_WRANGLER_LOCK";

// wrangler loads this file before its own code, and its worker threads load it too.
if (isMainThread) {
  holdStore();
  endWithParent();
}

/** Locks the store as long as wrangler runs, even if `start` is gone. */
function holdStore(): void {
  const path = process.env[LOCK_VARIABLE];
  if (path === undefined) return;
  // wrangler starts itself again with the same options. Only one of the processes takes the lock.
  delete process.env[LOCK_VARIABLE];
  const lock = lockFile(path, PATIENCE_MS);
  if (lock === null) {
    process.stderr.write("[ERROR] another wrangler still serves the store\n");
    process.exit(1);
  }
  // The lock lasts as long as something refers to it.
  process.once("exit", () => lock.release());
}

/**
 * Ends the whole process group when `start` ends, because workerd would go on without wrangler.
 * Standard input is a pipe that `start` holds open. It closes however `start` ends, even by
 * SIGKILL.
 */
function endWithParent(): void {
  const endGroup = (): void => void process.kill(0, "SIGKILL");
  process.stdin.once("end", endGroup).once("error", endGroup).resume().unref();
}
