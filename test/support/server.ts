import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { build } from "esbuild";
// npm installs one version of Miniflare: the one of wrangler, which `npm start` uses too.
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare } from "miniflare";
import type { V4MiniflareOptions } from "miniflare";
import { LAYOUT_VERSION } from "../../src/operator/database/local-store.ts";
import { PROJECT_ROOT } from "../../src/operator/wrangler.ts";
import { BINDINGS } from "../../src/schema/databases.ts";

interface ServerOptions {
  readonly store: string;
  readonly vars?: Readonly<Record<string, string>>;
  /** Receives each line that the Worker logs. */
  readonly onLog?: (line: string) => void;
}

export type Server = Awaited<ReturnType<typeof startServer>>;

const settings = readFileSync(join(PROJECT_ROOT, "wrangler.toml"), "utf8");
/** The day of the Workers runtime whose behaviour a deployed Worker has. */
const [, COMPATIBILITY_DATE = ""] = /^compatibility_date = "(.+)"$/m.exec(settings) ?? [];

/** Bundles a Worker by esbuild, as wrangler does, but without its start. Returns the script's path. */
export async function bundleWorker(entry: string, outdir: string, root = PROJECT_ROOT) {
  await build({
    absWorkingDir: root,
    entryPoints: [entry],
    outdir,
    bundle: true,
    minify: true,
    keepNames: true,
    format: "esm",
    target: "es2024",
    conditions: ["workerd", "worker", "browser"],
    external: ["cloudflare:*"],
    logLevel: "error",
  });
  return join(outdir, `${basename(entry, ".ts")}.js`);
}

/** Starts a bundled Worker, with the Durable Object class `RateLimiter`, in a workerd process on its own port. */
export async function startServer(script: string, { store, vars = {}, onLog }: ServerOptions) {
  const before = childProcesses();
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      name: "store-orders",
      modules: [{ type: "ESModule", path: script }],
      modulesRoot: dirname(script),
      compatibilityDate: COMPATIBILITY_DATE,
      bindings: vars,
      durableObjects: { RATE_LIMITER: { className: "RateLimiter", useSQLite: true } },
      d1Databases: Object.values(BINDINGS),
      resourcePersistencePath: join(store, LAYOUT_VERSION),
      host: "127.0.0.1",
      port: 0,
      cf: false,
      log: new Log(LogLevel.NONE),
      ...(onLog && { handleStructuredLogs: ({ message }) => onLog(message) }),
    } as V4MiniflareOptions),
  );
  const { origin: url } = await miniflare.ready;
  const [pid] = childProcesses().filter((one) => !before.includes(one));
  return {
    url,
    pid: pid!,
    request(key: string, path = "", method = "GET"): Promise<Response> {
      const headers = { Authorization: `Bearer ${key}` };
      return fetch(`${url}/v1/store/orders${path}`, { method, headers });
    },
    async kill(): Promise<void> {
      process.kill(pid!, "SIGKILL");
      await miniflare.dispose();
    },
    [Symbol.asyncDispose]: () => miniflare.dispose(),
  };
}

function childProcesses(): number[] {
  const { stdout } = spawnSync("pgrep", ["-P", String(process.pid)], { encoding: "utf8" });
  return stdout.trim().split("\n").map(Number);
}
