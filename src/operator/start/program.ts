import { once } from "node:events";
import { statfs } from "node:fs/promises";
import { createServer } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import type { Command } from "commander";
import type { CreatedKey } from "../../store/keys/key-settings.ts";
import { retry, retryWhileBusy } from "../retry.ts";
import { persistToOption, wholeNumberParser } from "../arguments.ts";
import { createProgram, quote } from "../command-line.ts";
import { DEFAULT_STORE, isStore } from "../database/local-store.ts";
import { configureWrangler, type DevServerOptions, runCron, startDevServer } from "./dev-server.ts";
import { lockStore } from "./store-lock.ts";

const DEFAULT_PORT = 8787;
/** The time between two runs of housekeeping, the same as in the deployed environments. */
const HOUSEKEEPING_EVERY_MS = 3_600_000;
const PARENT_POLL_MS = 250;
/** With less free space, a failed start is probably due to the full disk. */
const FULL_DISK_BYTES = 1_000_000;

const HELP = `
The first run on a store creates its tables, a few sample orders and one demo key for each plan. Only
one service can run on a store at a time; other commands, such as npm run keys, work meanwhile. To
change the configuration, write lines of the form NAME=value to .dev.vars.`;

type StartOptions = Omit<DevServerOptions, "store"> &
  Readonly<{ persistTo: string; empty: boolean }>;

export function startProgram(): Command {
  return createProgram("npm start --", "Run the service on this machine, with its own store.")
    .option("--port <n>", "port on 127.0.0.1", wholeNumberParser(65_535), DEFAULT_PORT)
    .addOption(persistToOption("folder of the store").default(DEFAULT_STORE, ".wrangler/state"))
    .option("--empty", "no sample orders and demo keys on the first run; deletes nothing", false)
    .option("--log", "print a line of JSON for each request", false)
    .addHelpText("after", HELP)
    .action(start);
}

async function start({ persistTo: store, ...options }: StartOptions): Promise<void> {
  endWithNpm();
  configureWrangler();
  try {
    await (await import("../settings.ts")).checkLocalVars();
    lockStore(store, options.port);
    await requireFreePort(options.port);
    const demoKeys = await prepare(store, options.empty);
    await serve({ ...options, store }, demoKeys);
  } catch (error) {
    const { bavail, bsize } = await statfs(store).catch(() => ({ bavail: Infinity, bsize: 1 }));
    const isForbidden = /^(?:EROFS|EACCES)$/.test(String(Object(error).code));
    if (isForbidden || bavail * bsize >= FULL_DISK_BYTES) throw error;
    const advice = `The disk of ${store} is full: make room, and run the same command again`;
    throw new Error(`${(error as Error).message}. ${advice}`, { cause: error });
  }
}

async function prepare(store: string, empty: boolean): Promise<CreatedKey[]> {
  const content = empty ? "" : ", sample orders and demo keys";
  const doing = isStore(store)
    ? "Starting the service, which"
    : `Preparing a new store in ${store}: two databases${content}. This`;
  process.stderr.write(`${doing} takes some seconds ...\n`);
  // Imported on demand, because it is slow to load.
  const { prepareStore } = await import("./sample-store.ts");
  // Prints the secrets before the service starts, because after a failed start they would be lost.
  return prepareStore(store, empty, (created) => {
    const lines = created.map(({ key, record }) => `  ${record.plan.padEnd(12)}${key}`);
    process.stdout.write(`Demo keys, shown this once:\n${lines.join("\n")}\n\n`);
  });
}

/** Waits up to a second, as an earlier service may be ending. @throws an Error if a port is in use. */
export async function requireFreePort(port: number): Promise<void> {
  const listen = async (): Promise<void> => {
    await using server = createServer().listen(port, "127.0.0.1");
    await once(server, "listening");
  };
  await retry(listen, { retries: 10, minTimeout: 100, factor: 1 }).catch((cause: Error) => {
    const advice = "end the program that uses it, or serve on another port (--port N)";
    throw new Error(`port ${port} cannot be used (${cause.message}): ${advice}`, { cause });
  });
}

async function serve(options: DevServerOptions, [demoKey]: CreatedKey[]): Promise<never> {
  // Retries, because workerd cannot start while another command is opening the store.
  await retryWhileBusy(() => startDevServer(options));
  // Before Miniflare's listeners, which exit with another status. It kills workerd at the exit.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
    process.prependOnceListener(signal, () => process.exit(0));
  }
  process.stdout.write(formatFirstSteps(options, demoKey?.key));
  for (;;) {
    await runCron(options.port).catch(({ message }: Error) =>
      process.stderr.write(`Housekeeping failed and is tried again in an hour: ${message}.\n`),
    );
    await delay(HOUSEKEEPING_EVERY_MS);
  }
}

function formatFirstSteps({ port, store }: DevServerOptions, key?: string): string {
  // Not localhost, which can be another address than the only one that the service listens on.
  const url = `http://127.0.0.1:${port}/v1/store/orders`;
  const curl = `  curl -i -H "Authorization: Bearer ${key ?? "<API_KEY>"}" ${url}`;
  const option = store === DEFAULT_STORE ? "" : ` --persist-to ${quote(store)}`;
  const create = `npm run keys -- create --plan free --name "My client"${option}`;
  const first = key === undefined ? `Make a key, then use it:\n  ${create}` : "Try it:";
  const served = `Serving on http://localhost:${port} (only on 127.0.0.1), until Ctrl+C.`;
  return `${served}\n\n${first}\n${curl}\n\n`;
}

// npm sends signals only to the shell in which it runs this process. Some shells then end and leave
// this process running.
function endWithNpm(): void {
  if (process.env["npm_lifecycle_event"] === undefined) return;
  const parent = process.ppid;
  const endOrphan = () => process.ppid === parent || process.kill(process.pid, "SIGTERM");
  setInterval(endOrphan, PARENT_POLL_MS).unref();
}
