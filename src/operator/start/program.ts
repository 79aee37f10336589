import { existsSync } from "node:fs";
import { resolve } from "node:path";
import type { Command } from "commander";
import { persistToOption, wholeNumberParser } from "../arguments.ts";
import { createProgram, typedLine } from "../command-line.ts";
import { DEFAULT_STORE, isStore } from "../database/local-store.ts";
import { retryWhileBusy } from "../database/retry-while-busy.ts";
import { formatDemoKeys, formatFirstSteps, formatStart } from "./announcement.ts";
import { requireFreePort } from "./port.ts";
import type { DemoKey } from "./sample-store.ts";
import { lockStore } from "./store-lock.ts";
import { WranglerDev } from "./wrangler-dev.ts";

const DEFAULT_PORT = 8787;
const LARGEST_PORT = 65_535;
/** The interval of housekeeping, the same as in the deployed environments. */
const HOUSEKEEPING_EVERY_MS = 3_600_000;

/** How often the service looks whether npm has ended. */
const PARENT_POLL_MS = 250;

const HELP = `
The first run on a store creates its tables, a few sample orders and one demo key for each plan. The
store keeps orders, keys, request counts and bans after the service ends. Only one service can run on
a store at a time. Other commands, such as npm run keys, work while the service runs.

Examples:
  $ npm start
  $ npm start -- --port 9000 --persist-to /tmp/shop
  $ npm start -- --empty                            no sample orders, no demo keys
  $ npm start -- --log                              a line for each request; JSON in a pipe

To change the configuration, write lines of the form NAME=value to .dev.vars.`;

interface StartOptions {
  readonly port: number;
  readonly persistTo: string;
  readonly empty: boolean;
  readonly log: boolean;
}

/** Defines the command line of `npm start`. */
export function startProgram(): Command {
  return createProgram("npm start --", "Run the service on this machine, with its own store.")
    .option("--port <n>", "port on localhost", wholeNumberParser(LARGEST_PORT), DEFAULT_PORT)
    .addOption(persistToOption("folder of the store").default(DEFAULT_STORE, ".wrangler/state"))
    .option(
      "--empty",
      "no sample orders and no demo keys on the first run; never deletes any",
      false,
    )
    .option("--log", "print a line for each request", false)
    .addHelpText("after", HELP)
    .action(start);
}

async function start({ port, persistTo, empty, log }: StartOptions): Promise<void> {
  endWithNpm();
  const store = resolve(persistTo);
  const hasStore = existsSync(store);
  const nextPort = port < LARGEST_PORT ? port + 1 : port - 1;
  const otherPort = typedLine({ "--port": String(nextPort) });
  // Checks the port before the lock creates the store's folder, so a failed start leaves no new
  // store behind.
  if (!hasStore) await requireFreePort(port, otherPort);
  const lock = await lockStore(store, port);
  try {
    // Checks the port after locking the store: if another service uses both this store and this
    // port, the error about the store is clearer.
    if (hasStore) await requireFreePort(port, otherPort);
    const isNew = !isStore(store);
    process.stderr.write(formatStart(store, { isNew, empty }));
    // Imports the modules that open a store only at this point, because they are slow to load.
    const { prepareStore } = await import("./sample-store.ts");
    const demoKeys = await prepareStore(store, empty);
    // Prints the secrets of the demo keys before the service starts, because they cannot be shown
    // again after a failure.
    if (demoKeys.length > 0) process.stdout.write(formatDemoKeys(demoKeys));
    await serve({ port, store, log }, demoKeys);
  } finally {
    lock.release();
  }
}

/**
 * Runs the service until SIGINT, SIGTERM or SIGHUP ends it.
 *
 * @throws an Error if the service does not start, or ends without a signal.
 */
async function serve(
  { port, store, log }: { port: number; store: string; log: boolean },
  demoKeys: readonly DemoKey[],
): Promise<void> {
  let service: WranglerDev | undefined;
  let isStopping = false;
  let housekeeping: NodeJS.Timeout | undefined;
  const keepHouse = async (): Promise<void> => {
    try {
      await service?.runCron();
    } catch (error) {
      if (isStopping) return;
      process.stderr.write(
        `Housekeeping failed and is tried again in an hour: ${(error as Error).message}.\n`,
      );
    }
  };
  const stop = (): void => {
    isStopping = true;
    void service?.stop();
  };
  process.once("SIGINT", stop).once("SIGTERM", stop).once("SIGHUP", stop);
  try {
    // Retries, because workerd cannot start while another command is opening the store.
    await retryWhileBusy(async () => {
      if (isStopping) throw new Error("stopped before it served");
      service = new WranglerDev(port, store, log);
      await service.ready();
    });
    process.stdout.write(formatFirstSteps(port, store, demoKeys));
    void keepHouse();
    housekeeping = setInterval(() => void keepHouse(), HOUSEKEEPING_EVERY_MS);
    await service?.ended();
    throw new Error("the service ended unexpectedly");
  } catch (error) {
    if (!isStopping) throw error;
  } finally {
    clearInterval(housekeeping);
    await service?.stop();
  }
}

/**
 * Ends this process with SIGTERM when the shell in which npm runs it has ended. npm sends signals
 * only to this shell, and some shells then end and leave Node running. Does nothing without npm.
 */
function endWithNpm(): void {
  if (process.env["npm_lifecycle_event"] === undefined) return;
  const parent = process.ppid;
  const endOrphan = (): void => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    process.kill(process.pid, "SIGTERM");
  };
  const timer = setInterval(endOrphan, PARENT_POLL_MS).unref();
}
