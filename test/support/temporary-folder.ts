import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Creates a folder for a program, which is removed when the process ends. */
export function temporaryFolder(program: string): string {
  const folder = mkdtempSync(join(tmpdir(), `store-orders-${program}-`));
  // Removes all files synchronously, because Miniflare ends the process at once after a signal.
  const options = { recursive: true, force: true, maxRetries: 10, retryDelay: 200 };
  process.once("exit", () => rmSync(folder, options));
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));
  return folder;
}
