import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import type * as MiniflarePackage from "miniflare";
import { LAYOUT_VERSION } from "../../src/operator/database/local-store.ts";
import type { Bundle } from "./bundle.ts";
import { BINDINGS } from "../../src/schema/databases.ts";

interface ServerOptions {
  readonly store: string;
  readonly vars?: Readonly<Record<string, string>>;
  /** Whether the disposal of the server removes the store. */
  readonly isTemporary?: boolean;
  /** A second Worker that calls the service's entrypoints. */
  readonly caller?: Caller;
  /** Receives each line that the Worker logs. */
  readonly onLog?: (line: string) => void;
}

export interface Caller {
  /** The path of its bundled script. */
  readonly script: string;
  /** The service bindings: the entrypoint and props of each. */
  readonly bindings: Readonly<Record<string, { entrypoint: string; props: object }>>;
}

export type Server = Awaited<ReturnType<typeof startServer>>;

// The version of Miniflare that wrangler depends on. `npm start` uses it too.
const requireLikeWrangler = createRequire(
  createRequire(import.meta.url).resolve("wrangler/package.json"),
);
const miniflarePackage = requireLikeWrangler("miniflare") as typeof MiniflarePackage;
const { convertV4MiniflareOptions, Log, LogLevel, Miniflare } = miniflarePackage;

/** Starts a Worker, with the Durable Object class `RateLimiter`, in a workerd process on its own port. */
export async function startServer(bundle: Bundle, options: ServerOptions) {
  const before = childProcesses();
  const { compatibilityDate } = bundle;
  const { store, vars = {}, caller, onLog } = options;
  const service = {
    name: "store-orders",
    modules: [
      { type: "ESModule", path: bundle.script },
      ...bundle.wasm.map((path) => ({ type: "CompiledWasm", path })),
    ],
    modulesRoot: dirname(bundle.script),
    compatibilityDate,
    bindings: vars,
    durableObjects: { RATE_LIMITER: { className: "RateLimiter", useSQLite: true } },
    d1Databases: Object.values(BINDINGS),
  };
  const callerOf = ({ script, bindings }: Caller) => ({
    name: "caller",
    modules: [{ type: "ESModule", path: script }],
    modulesRoot: dirname(script),
    compatibilityDate,
    serviceBindings: Object.fromEntries(
      Object.entries(bindings).map(([name, to]) => [name, { name: service.name, ...to }]),
    ),
  });
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      workers: [service, ...(caller ? [callerOf(caller)] : [])],
      resourcePersistencePath: join(store, LAYOUT_VERSION),
      host: "127.0.0.1",
      port: 0,
      cf: false,
      log: new Log(LogLevel.NONE),
      ...(onLog && { handleStructuredLogs: ({ message }) => onLog(message) }),
    } as MiniflarePackage.V4MiniflareOptions),
  );
  const { origin: url } = await miniflare.ready;
  const [pid] = childProcesses().filter((one) => !before.includes(one));
  const end = async () => {
    await miniflare.dispose();
    if (options.isTemporary) await rm(store, { recursive: true });
  };
  return {
    url,
    process: processOf(pid!),
    request(key: string, path = "", method = "GET"): Promise<Response> {
      const headers = { Authorization: `Bearer ${key}` };
      return fetch(`${url}/v1/store/orders${path}`, { method, headers });
    },
    /** Sends a request to the second Worker. */
    async fetchCaller(path: string, init: object): Promise<{ text(): Promise<string> }> {
      return (await miniflare.getWorker("caller")).fetch(`http://caller${path}`, init);
    },
    async kill(): Promise<void> {
      process.kill(pid!, "SIGKILL");
      await end();
    },
    [Symbol.asyncDispose]: end,
  };
}

/** The unit in which Linux reports processor time. */
const TICK_MS = 10;
const SAMPLE_MS = 50;
/** A process is idle if it uses no processor time during this many samples. */
const IDLE_SAMPLES = 6;

/** Measures a process by `/proc` (proc(5)). */
function processOf(pid: number) {
  const read = (name: string) => readFileSync(`/proc/${pid}/${name}`, "utf8");
  /** Returns the processor time of the process so far in milliseconds, a multiple of 10. */
  const processorMs = () => {
    const [user, system] = read("stat").replace(/.*\) /s, "").split(" ").slice(11);
    return (Number(user) + Number(system)) * TICK_MS;
  };
  return {
    processorMs,
    peakBytes: () => Number(/^VmHWM:\s+(\d+) kB$/m.exec(read("status"))?.[1]) * 1_024,
    /** Waits until the process is idle, because the service may fill the cache after a response. */
    async idle(): Promise<void> {
      let before = processorMs();
      for (let quiet = 0; quiet < IDLE_SAMPLES;) {
        await wait(SAMPLE_MS);
        const spent = processorMs();
        quiet = spent === before ? quiet + 1 : 0;
        before = spent;
      }
    },
  };
}

function childProcesses(): number[] {
  const { stdout } = spawnSync("pgrep", ["-P", String(process.pid)], { encoding: "utf8" });
  return stdout.trim().split("\n").map(Number);
}
