import type { ChildProcess } from "node:child_process";
import { subscribe } from "node:diagnostics_channel";
import { createRequire } from "node:module";
import { existsSync, mkdirSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { ownFolder } from "../database/local-store.ts";
import { PROJECT_ROOT, SITE_FOLDER, WRANGLER_BIN } from "../wrangler.ts";

/** Becomes workerd. Kills workerd when this process ends, even if it is killed. */
const WORKERD = join(import.meta.dirname, "workerd.sh");
/** How often a start that takes long is reported. Tests set a shorter time. */
export const START_PATIENCE = { noticeMs: 30_000 };
const CRON_TIMEOUT_MS = 600_000;

type LogLine = Readonly<Record<"level" | "message", string>>;

/** `store`: the absolute path of its folder. `log`: true prints a line for each request. */
export type DevServerOptions = Readonly<{ port: number; store: string; log: boolean }>;

/** Must run first, because wrangler and Miniflare read these variables while they are imported. */
export function configureWrangler(): void {
  Object.assign(process.env, {
    WRANGLER_LOG: "warn",
    WRANGLER_SEND_METRICS: "false",
    // Without a network, wrangler would print a stack trace, because it fetches `request.cf`.
    CLOUDFLARE_CF_FETCH_ENABLED: "false",
    // Turns off local traces, because they fill the store's folder and halve the speed.
    X_LOCAL_OBSERVABILITY: "false",
    // Nothing checks the vars of `.env`.
    CLOUDFLARE_LOAD_DEV_VARS_FROM_DOT_ENV: "false",
    MINIFLARE_WORKERD_PATH: WORKERD,
    STORE_ORDERS_WORKERD: createRequire(WRANGLER_BIN)("workerd").default,
  });
}

/** The folder in which local Workers find each other's entrypoints, as `wrangler dev` chooses it. */
function registryFolder(): string {
  const config = process.platform === "darwin" ? "Library/Preferences" : ".config";
  const { WRANGLER_REGISTRY_PATH, XDG_CONFIG_HOME = join(homedir(), config) } = process.env;
  const former = join(homedir(), ".wrangler");
  const folder = existsSync(former) ? former : join(XDG_CONFIG_HOME, ".wrangler");
  return WRANGLER_REGISTRY_PATH ?? join(folder, "registry");
}

/** Ends this process with status 1 if workerd ends, as wrangler would leave requests unanswered. */
function exitWithWorkerd(isServing: () => boolean): void {
  subscribe("child_process", (message) => {
    const { process: child } = message as { readonly process: ChildProcess };
    child.once("exit", (status, signal) => {
      // `killed`: Miniflare itself ends workerd when the source or the configuration changes.
      if (child.spawnfile !== WORKERD || child.killed || !isServing()) return;
      process.stderr.write(
        `error: workerd, which runs the service, has ended (${signal ?? `status ${status}`}). ` +
          "Nothing is lost: run the same command again\n",
      );
      process.exit(1);
    });
  });
}

/** Starts the service, which runs until this process exits. @throws an Error if the start fails. */
export async function startDevServer({ port, store, log }: DevServerOptions): Promise<void> {
  // The store has a site of its own, because the site names the address that it is served from.
  const site = join(ownFolder(store), "site");
  mkdirSync(site, { recursive: true });
  Object.assign(process.env, { PUBLIC_URL: `http://localhost:${port}`, [SITE_FOLDER]: site });
  const { unstable_DevEnv: DevEnv } = await import("wrangler");
  const server = new DevEnv();
  const { promise: isLoaded, resolve, reject } = Promise.withResolvers<void>();
  server.once("reloadComplete", resolve).once("error", reject).once("buildFailed", reject);
  // No time limit, because a busy machine may take minutes. If workerd ends, the start fails.
  using _notice = setInterval(() => {
    const seconds = Math.round(process.uptime());
    process.stderr.write(`Still starting: workerd is not ready after ${seconds} s ...\n`);
  }, START_PATIENCE.noticeMs);
  // The log lines before the service is ready can say why it does not start.
  const startLines: LogLine[] = [];
  let receive = (line: LogLine): unknown => startLines.push(line);
  let isServing = false;
  exitWithWorkerd(() => isServing);
  const starting = server.startWorker({
    config: join(PROJECT_ROOT, "wrangler.toml"),
    assets: site,
    ...(log && { bindings: { REQUEST_LOG: { type: "plain_text", value: "all" } } }),
    dev: {
      server: { hostname: "127.0.0.1", port },
      inspector: false,
      persist: store,
      registry: registryFolder(),
      watch: true,
      structuredLogsHandler: (line: LogLine) => receive(line),
    },
  });
  try {
    await Promise.all([isLoaded, starting.then(({ ready }) => ready)]);
  } catch (error) {
    // The teardown throws the same error again.
    await server.teardown().catch(() => {});
    const reason = describeFailure(error, startLines);
    throw new Error(`the service did not start: ${reason}`, { cause: error });
  }
  isServing = true;
  receive = (line) => printLine(line, log);
  startLines.forEach(receive);
}

/** Runs the Worker's cron trigger. @throws if the trigger fails; the Worker logs the cause. */
export async function runCron(port: number): Promise<void> {
  const signal = AbortSignal.timeout(CRON_TIMEOUT_MS);
  const url = `http://127.0.0.1:${port}/cdn-cgi/local/scheduled`;
  const { ok, status } = await fetch(url, { signal });
  if (!ok) throw new Error(`answered ${status}`);
}

/** Prints warnings and errors; with `log`, also the lines of the service, with the time. */
function printLine({ level, message }: LogLine, log: boolean): void {
  if (level === "warn" || level === "error") process.stderr.write(`${message}\n`);
  else if (log && message.startsWith('{"event":')) {
    const time = new Date().toISOString();
    process.stdout.write(`{"time":"${time}",${message.slice(1)}\n`);
  }
}

/** Returns the first logged line, else the error, without a prefix such as `service core:user:`. */
function describeFailure(failure: unknown, lines: readonly LogLine[]): string {
  const { message, cause } = failure as { readonly message?: string; readonly cause?: Error };
  const texts = [...lines.map((line) => line.message), message ?? cause?.message ?? ""];
  const telling = texts.find((text) => text.includes("SQLITE_BUSY")) ?? texts[0] ?? "";
  return telling.replace(/^service \S+: (?:Uncaught Error: )?/, "").replace(/\n[^]*/, "");
}
