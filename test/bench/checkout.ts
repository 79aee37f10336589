import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { cp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { promisify } from "node:util";
import { PROJECT_ROOT } from "../../src/operator/wrangler.ts";
import { MAX_LIMIT } from "../../src/rules/limits/plans.ts";
import { bundleWorker, startServer } from "../support/server.ts";

export interface ServeOptions {
  readonly orders?: number;
  readonly vars?: Readonly<Record<string, string>>;
  readonly keys?: number;
  /** How many requests each key may send in a minute and in a day. */
  readonly limit?: number;
}

/** Serves a checkout. */
export type Serve = ReturnType<typeof openCheckout>;

/** A running service, with the secrets of keys in its store. */
export type Served = Awaited<ReturnType<Serve>>;

/**
 * Opens a checkout of the service: this one, or another commit, whose own commands make its stores.
 *
 * @param temporary a folder for bundles and stores.
 */
export function openCheckout(name: string, root: string, temporary: string) {
  const folder = join(temporary, name);
  const made: Record<string, Promise<string>> = {};
  const once = (what: string, make: () => Promise<string>) => {
    if (!(what in made)) say(`${name}: ${what}`);
    return (made[what] ??= make());
  };

  const bundle = async () => {
    // Every version is measured with today's Worker around it.
    const files = ["bench/delayed-service.ts", "support/wrapped-bindings.ts"];
    const around = join(root, ".wrangler");
    for (const file of files) await cp(join(PROJECT_ROOT, "test", file), join(around, file));
    return bundleWorker(join(around, files[0]!), folder, root);
  };

  const run = async (store: string, command: string, ...args: string[]) => {
    const all = ["run", "-s", command, "--", ...args, "--persist-to", store];
    return (await promisify(execFile)("npm", all, { cwd: root })).stdout;
  };

  const importOrders = async (store: string, count: number) => {
    const lines = Array.from({ length: count }, (_, id) => {
      const shipDate = new Date(Date.UTC(2026, 0, 1) + id * 12_345);
      const complete = id % 3 === 0;
      return JSON.stringify({ id, petId: id % 5_000, quantity: id % 9, shipDate, complete });
    });
    const file = `${store}.ndjson`;
    await writeFile(file, lines.join("\n"));
    return run(store, "orders", "import", file);
  };

  /** Returns the secret of a new key with this limit in both windows. */
  const createKey = async (store: string, limit: string) => {
    const limits = ["--per-minute", limit, "--per-day", limit];
    const args = ["--name", "bench", "--plan", "enterprise", "--json", ...limits];
    return JSON.parse(await run(store, "keys", "create", ...args)).key;
  };

  /** Serves the service on the store with so many orders, which only one server may use at a time. */
  return async (options: ServeOptions) => {
    const { orders = 10, vars = {}, keys: count = 1, limit = MAX_LIMIT } = options;
    const script = await once("bundling", bundle);
    const store = join(folder, `store-${orders}`);
    await once(`importing ${orders} orders`, () => importOrders(store, orders));
    const keys: string[] = [];
    while (keys.length < count) {
      const what = `creating key ${keys.length} with the limit ${limit} beside ${orders} orders`;
      keys.push(await once(what, () => createKey(store, String(limit))));
    }
    const server = await startServer(script, { store, vars });
    return { ...server, ...measuresOf(server.pid), orders, keys };
  };
}

/** Measures a process by `/proc` (proc(5)). */
function measuresOf(pid: number) {
  const read = (name: string) => readFileSync(`/proc/${pid}/${name}`, "utf8");
  /** The processor time of the process so far, which Linux counts in units of 10 milliseconds. */
  const processorMs = () => {
    const [user, system] = read("stat").replace(/.*\) /s, "").split(" ").slice(11);
    return (Number(user) + Number(system)) * 10;
  };
  const peakMebibytes = () => Number(/^VmHWM:\s+(\d+) kB$/m.exec(read("status"))?.[1]) / 1_024;
  /** Waits until the process is idle, because it may fill its memory after a response. */
  const idle = async () => {
    for (let before = NaN; before !== processorMs(); await wait(300)) before = processorMs();
  };
  return { processorMs, peakMebibytes, idle };
}

/** Prints progress, on stderr. */
export function say(progress: string): void {
  process.stderr.write(`bench: ${progress}\n`);
}
