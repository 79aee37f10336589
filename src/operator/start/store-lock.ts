import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { typedLine } from "../command-line.ts";
import { type ExclusiveFile, lockFile } from "./exclusive-file.ts";

/** How long to wait for an earlier service to end: the same time as in `requireFreePort`. */
const PATIENCE_MS = 1_000;
const POLL_MS = 100;

const holderSchema = z.object({ pid: z.int(), port: z.int() });
type Holder = z.output<typeof holderSchema>;

/**
 * Returns the path of the file that the wrangler process locks. `npm start` locks another file. Two
 * locks are needed, because wrangler can run longer than `npm start`.
 */
export function wranglerLockPath(store: string): string {
  return join(store, "wrangler.lock");
}

/**
 * Locks a store, so that no other service can run on it. Two services would count requests
 * separately and admit too many. Commands other than `npm start` need no lock.
 *
 * @param store the folder of the store. Creates the folder if it is missing.
 * @throws an Error for the operator if a service runs on the store. The message names the service
 *   and suggests another store.
 */
export async function lockStore(store: string, port: number): Promise<ExclusiveFile> {
  await mkdir(store, { recursive: true });
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    const lock = lockFile(join(store, "service.lock"), 0);
    if (lock !== null) {
      await writeHolder(store, { pid: process.pid, port });
      return lock;
    }
    if (performance.now() > deadline)
      throw new Error(describeRefusal(store, port, await readHolder(store)));
    await delay(POLL_MS);
  }
}

function describeRefusal(store: string, port: number, holder: Holder | null): string {
  const service = holder === null ? "another service" : `process ${holder.pid}`;
  const onPort = holder === null ? "" : ` on port ${holder.port}`;
  const freePort = port === holder?.port ? port + 1 : port;
  return (
    `${service} already serves the store ${store}${onPort}; end it first, ` +
    `or serve another store: ${typedLine({ "--port": String(freePort), "--persist-to": "OTHER" })}`
  );
}

/**
 * Returns the path of a file that names the process and port of the service that runs on the store,
 * for error messages.
 */
function holderPath(store: string): string {
  return join(store, "service.json");
}

async function writeHolder(store: string, holder: Holder): Promise<void> {
  const temporary = `${holderPath(store)}.${holder.pid}`;
  await writeFile(temporary, `${JSON.stringify(holder)}\n`);
  await rename(temporary, holderPath(store));
}

/** Reads which process serves a store, or served it last; `null` if none did. */
export async function readHolder(store: string): Promise<Holder | null> {
  try {
    return holderSchema.parse(JSON.parse(await readFile(holderPath(store), "utf8")));
  } catch {
    return null;
  }
}
