import { resolve } from "node:path";
import { type Command, Option } from "commander";
import {
  envOption,
  jsonOption,
  parseUrl,
  persistToOption,
  type RemoteEnvironment,
} from "../arguments.ts";
import { createProgram, EndWithStatus, printJson, UsageError } from "../command-line.ts";
import { requireConfirmation, yesOption } from "../confirmation.ts";
import { DEFAULT_STORE } from "../database/local-store.ts";
import { requireStore, useDatabase } from "../database/open.ts";
import { withInterruption } from "../interruption.ts";
import { readSecret } from "../read-secret.ts";
import {
  countResults,
  type PromiseResult,
  SYSTEM_CLOCK,
  type VerifyOptions,
} from "./service-promise.ts";

const DEFAULT_PORT = 8787;
const HEALTH_TIMEOUT_MS = 20_000;
const MARKS = { kept: "✔", broken: "✘", untried: "–" };

const HELP = `
The command sends requests to a running service and tries what docs/api.md and docs/limits.md promise.
It takes less than two minutes. It creates a key on the Free plan that expires in ten minutes, uses up
one minute window of the key, and deletes the key at the end. Without --write it changes no order. The
exit status is 1 if a promise is broken; its line names the id of the request, which the log has too.

Examples:
  $ npm run verify -- --env staging --write
  $ npm run verify -- --env production --read-only         uses up no limit
  $ npm run verify -- --url http://127.0.0.1:8787 < key.txt
  $ npm run verify -- --persist-to ./other-store --url http://127.0.0.1:8788

--write places a pending order, cancels it, and removes it. It also tries to cancel one of the store's
shipped orders, which the service and its database must refuse. In production it asks for confirmation.`;

interface Options {
  readonly env?: RemoteEnvironment;
  readonly persistTo?: string;
  readonly url?: string;
  readonly write: boolean;
  readonly yes: boolean;
  readonly readOnly: boolean;
  readonly json: boolean;
}

/** The clock and the `fetch` that the command uses. Tests replace both. */
export type Surroundings = Required<Pick<VerifyOptions, "clock" | "send">>;
const SURROUNDINGS: Surroundings = { clock: SYSTEM_CLOCK, send: (url, init) => fetch(url, init) };

/** Defines the command line of `npm run verify`. */
export function verifyProgram(surroundings = SURROUNDINGS): Command {
  const url =
    "address of the service without /v1; stdin must hold a key unless --env or --persist-to is given";
  const write = "place an order and cancel it, and try to cancel a shipped one";
  return createProgram(
    "npm run verify --",
    "Check that a running service does what the documents promise.",
  )
    .addOption(
      envOption("verify the service of this environment, with a new key").conflicts("persistTo"),
    )
    .addOption(persistToOption("create the key in this local store"))
    .option("--url <url>", url, parseUrl)
    .addOption(new Option("--write", write).default(false).conflicts("readOnly"))
    .addOption(yesOption())
    .option("--read-only", "use up no limit, and place no order", false)
    .addOption(jsonOption())
    .addHelpText("after", HELP)
    .action((options: Options) => run(options, surroundings));
}

async function run(options: Options, { clock, send }: Surroundings): Promise<void> {
  const { env, persistTo, write, yes, json } = options;
  const ownsKey = env !== undefined || persistTo !== undefined || options.url === undefined;
  if (write && !ownsKey) {
    throw new UsageError("--write needs the store of the service: add --env or --persist-to");
  }
  if (write && env === "production" && !yes) {
    await requireConfirmation(
      env,
      "This places an order in production, which clients see until it is cancelled and removed.",
    );
  }
  const { isKept } = await withInterruption("everything was verified", async (signal) => {
    if (ownsKey) requireStore(options);
    const url = options.url ?? (await addressOf(options));
    await requireAnswer(url, send);
    if (!json) process.stdout.write(`Verifying ${url}, for up to two minutes ...\n`);
    const startedMs = Date.now();
    const report = json ? () => {} : printResult;
    const common = { url, isReadOnly: options.readOnly, signal, send, clock, report };
    const { verify, verifyStore } = await import("./verify.ts");
    const found = ownsKey
      ? await verifyStore({
          ...common,
          useDatabase: (name, work) => useDatabase(options, name, work),
          isWriting: write,
        })
      : await verify({ ...common, key: await readSecret(process.stdin) });
    const seconds = Math.round((Date.now() - startedMs) / 1_000);
    if (json) printJson({ url, ...found });
    else process.stdout.write(`${countResults(found.promises)}, in ${seconds} s.\n`);
    return found;
  });
  if (!isKept) throw new EndWithStatus(1);
}

/** Returns the address of the service in `env`, or of the local service with this store. */
async function addressOf({ env, persistTo = DEFAULT_STORE }: Options): Promise<string> {
  if (env === undefined) {
    const { readHolder } = await import("../start/store-lock.ts");
    return `http://127.0.0.1:${readHolder(resolve(persistTo))?.port ?? DEFAULT_PORT}`;
  }
  const { CloudflareApi } = await import("../cloudflare-api.ts");
  const { findAddresses } = await import("../deploy/account.ts");
  const { readSettings } = await import("../settings.ts");
  const [address] = await findAddresses(await CloudflareApi.open(), await readSettings(env));
  return address;
}

/** Requires a service with `/healthz`, so that no key is made for something else. */
async function requireAnswer(url: string, send: Surroundings["send"]): Promise<void> {
  const advice = "Start the service, or name its address with --url";
  const ask = async () => {
    const response = await send(`${url}/healthz`, {
      signal: AbortSignal.timeout(HEALTH_TIMEOUT_MS),
    });
    return { status: response.status, body: await response.text() };
  };
  const { status, body } = await ask().catch((error) => {
    const { message, cause } = error as Error;
    const reason = cause instanceof Error ? cause.message : message;
    throw new Error(`${url} does not answer: ${reason}. ${advice}`, { cause: error });
  });
  if (body.includes('"orders":')) return;
  throw new Error(`${url} is not this service: it answers /healthz with ${status}. ${advice}`);
}

function printResult({ promise, result, reason, requestId }: PromiseResult): void {
  const why = reason === undefined ? "" : `: ${reason}`;
  const where = requestId === undefined ? "" : ` (request ${requestId})`;
  process.stdout.write(`${MARKS[result]} ${promise}${why}${where}\n`);
}
