import type { ChildProcess } from "node:child_process";
import { subscribe } from "node:diagnostics_channel";
import { createRequire } from "node:module";
import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { ownFolder } from "../database/local-store.ts";
import { PROJECT_ROOT, SITE_FOLDER } from "../wrangler.ts";

/** Becomes workerd. Kills workerd when this process ends, even if it is killed. */
const WORKERD = join(import.meta.dirname, "workerd.sh");
/** How often a start that takes long is reported. Tests set a shorter time. */
export const START_PATIENCE = { noticeMs: 30_000 };
const CRON_TIMEOUT_MS = 600_000;

type LogLine = Readonly<Record<"level" | "message", string>>;

export interface DevServerOptions {
  readonly port: number;
  /** The absolute path of the store's folder. */
  readonly store: string;
  /** True prints a line for each request. */
  readonly log: boolean;
}

/** Must run first, because wrangler and Miniflare read these variables while they are imported. */
export function configureWrangler(): void {
  const require = createRequire(createRequire(import.meta.url).resolve("wrangler/package.json"));
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
    STORE_ORDERS_WORKERD: (require("workerd") as { default: string }).default,
  });
}

/**
 * Returns the folder in which Workers on this machine find each other, so that other Workers can call
 * the service's entrypoints. Wrangler does not export its own function for `wrangler dev`.
 */
function registryFolder(): string {
  const named = process.env["WRANGLER_REGISTRY_PATH"];
  if (named !== undefined) return named;
  const home = homedir();
  const config =
    process.platform === "darwin" ? join(home, "Library", "Preferences") : join(home, ".config");
  const folders = [
    join(home, ".wrangler"),
    join(process.env["XDG_CONFIG_HOME"] ?? config, ".wrangler"),
  ];
  return join(folders.find((folder) => existsSync(folder)) ?? folders[1] ?? home, "registry");
}

/**
 * Ends this process with status 1 if workerd ends, because wrangler would leave all requests
 * unanswered. Before the service `isServing`, `startDevServer` throws instead.
 */
export function exitWithWorkerd(isServing: () => boolean): void {
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

/**
 * Starts the service, which runs until this process exits, after `configureWrangler`.
 *
 * @throws an Error if the start fails.
 */
export async function startDevServer({ port, store, log }: DevServerOptions): Promise<void> {
  // The store has a site of its own, because the site names the address that it is served from.
  const site = join(ownFolder(store), "site");
  await mkdir(site, { recursive: true });
  Object.assign(process.env, { PUBLIC_URL: `http://localhost:${port}`, [SITE_FOLDER]: site });
  const { unstable_DevEnv: DevEnv } = await import("wrangler");
  const server = new DevEnv();
  const { promise: isServing, resolve, reject } = Promise.withResolvers<void>();
  server.once("reloadComplete", resolve).once("error", reject).once("buildFailed", reject);
  // No time limit, because a busy machine may take minutes. If workerd ends, the start fails.
  const beganMs = Date.now();
  const notice = setInterval(() => {
    const seconds = Math.round((Date.now() - beganMs) / 1_000);
    process.stderr.write(`Still starting: workerd is not ready after ${seconds} s ...\n`);
  }, START_PATIENCE.noticeMs);
  // The log lines before the service is ready. They can say why the service does not start.
  let startLines: LogLine[] | null = [];
  const startWorker = async (): Promise<void> => {
    const worker = await server.startWorker({
      config: join(PROJECT_ROOT, "wrangler.toml"),
      assets: site,
      ...(log && { bindings: { REQUEST_LOG: { type: "plain_text", value: "all" } } }),
      dev: {
        server: { hostname: "127.0.0.1", port },
        inspector: false,
        persist: store,
        registry: registryFolder(),
        watch: true,
        structuredLogsHandler: (line: LogLine) => {
          if (startLines === null) printLine(line, log);
          else startLines.push(line);
        },
      },
    });
    await worker.ready;
  };
  try {
    await Promise.all([isServing, startWorker()]);
    for (const line of startLines) printLine(line, log);
    startLines = null;
  } catch (error) {
    // The teardown throws the same error again.
    await server.teardown().catch(() => {});
    const reason = describeFailure(error, startLines ?? []);
    throw new Error(`the service did not start: ${reason}`, { cause: error });
  } finally {
    clearInterval(notice);
  }
}

/** Runs the Worker's cron trigger. @throws if the trigger fails; the Worker logs the cause. */
export async function runCron(port: number): Promise<void> {
  const { ok, status } = await fetch(`http://127.0.0.1:${port}/cdn-cgi/local/scheduled`, {
    signal: AbortSignal.timeout(CRON_TIMEOUT_MS),
  });
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
