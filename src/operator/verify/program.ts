import { resolve } from "node:path";
import { type Command, Option } from "commander";
import { envOption, jsonOption, parseUrl, persistToOption } from "../arguments.ts";
import { createProgram, ReportedFailure, printJson, UsageError } from "../command-line.ts";
import { requireConfirmation, yesOption } from "../confirmation.ts";
import { DEFAULT_STORE } from "../database/local-store.ts";
import { requireStore, type StoreCommandOptions } from "../database/open.ts";
import { withInterruption } from "../interruption.ts";
import { readSecret } from "../read-secret.ts";
import type { PromiseResult } from "./verify.ts";

const DEFAULT_PORT = 8787;
const MARKS = { kept: "✔", broken: "✘", untried: "–" };

const HELP = `
Tries what docs/api.md and docs/limits.md promise, with a new key on the Free plan, which is deleted at
the end. Takes less than two minutes. Without --write it changes no order. The exit status is 1 if a
promise is broken; its line names the id of the request, which the log has too.

Examples:
  $ npm run verify -- --env staging --write
  $ npm run verify -- --env production --read-only
  $ npm run verify -- --url http://127.0.0.1:8787 < key.txt

--write places a pending order, cancels it, and removes it. It also tries to cancel one of the store's
shipped orders, which the service and its database must refuse. In production it asks for confirmation.`;

type Options = StoreCommandOptions &
  Readonly<{ url?: string } & Record<"write" | "yes" | "readOnly", boolean>>;

export function verifyProgram(): Command {
  return createProgram("npm run verify --", "Check that a running service keeps its promises.")
    .addOption(envOption("verify this environment, with a new key").conflicts("persistTo"))
    .addOption(persistToOption("create the key in this local store"))
    .option("--url <url>", "address of the service; alone, stdin must hold a key", parseUrl)
    .addOption(
      new Option("--write", "place and cancel an order").default(false).conflicts("readOnly"),
    )
    .addOption(yesOption())
    .option("--read-only", "use up no limit, and place no order", false)
    .addOption(jsonOption())
    .addHelpText("after", HELP)
    .action(run);
}

async function run(options: Options): Promise<void> {
  const { env, persistTo, write: isWriting, json, readOnly: isReadOnly } = options;
  const ownsKey = env !== undefined || persistTo !== undefined || options.url === undefined;
  if (isWriting && !ownsKey) {
    throw new UsageError("--write needs the store of the service: add --env or --persist-to");
  }
  if (isWriting && env === "production") {
    const places = "This places an order that clients see until it is cancelled.";
    await requireConfirmation(options, places);
  }
  await withInterruption("everything was verified", async (signal) => {
    if (ownsKey) requireStore(options);
    const url = options.url ?? (await addressOf(options));
    const verification = await import("./verify.ts");
    const print = (line: string) => json || process.stdout.write(`${line}\n`);
    const report = ({ promise, result, reason }: PromiseResult) =>
      print(`${MARKS[result]} ${promise}${reason === undefined ? "" : `: ${reason}`}`);
    const service = { url, isReadOnly, signal, report };
    // Before a key is made or sent.
    await verification.requireHealth(service).catch((cause: Error) => {
      signal.throwIfAborted();
      const advice = "Start the service, or name its address with --url";
      throw new Error(`no healthy service at ${url}: ${cause.message}. ${advice}`, { cause });
    });
    await verification.requireBudget(service);
    print(`Verifying ${url}, for up to two minutes ...`);
    const found = ownsKey
      ? await verification.verifyStore({ ...service, store: options, isWriting })
      : await verification.verify(service, { key: await readSecret(process.stdin) });
    const isKept = found.every(({ result }) => result !== "broken");
    if (json) printJson({ url, isKept, promises: found });
    print(`${verification.countResults(found)}.`);
    if (!isKept) throw new ReportedFailure();
  });
}

/** Returns the address of the service in `env`, or of the local service with this store. */
async function addressOf({ env, persistTo = DEFAULT_STORE }: Options): Promise<string> {
  if (env === undefined) {
    const { readHolder } = await import("../start/store-lock.ts");
    return `http://127.0.0.1:${readHolder(resolve(persistTo))?.port ?? DEFAULT_PORT}`;
  }
  const { logIn } = await import("../cloudflare-api.ts");
  const { findAddress } = await import("../deploy/account.ts");
  const { readSettings } = await import("../settings.ts");
  const settings = await readSettings(env);
  return findAddress(await logIn(settings), settings);
}
