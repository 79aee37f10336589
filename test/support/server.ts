import { readdirSync, readFileSync } from "node:fs";
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

/** A Worker, with the Durable Object class `RateLimiter`, in a workerd process on its own port. */
export class Server implements AsyncDisposable {
  readonly url: string;
  readonly process: WorkerProcess;
  /** Sends a request to the second Worker. */
  readonly fetchCaller: (path: string, init?: RequestInit) => Promise<Response>;
  readonly #end: () => Promise<void>;

  private constructor(
    url: string,
    pid: number,
    fetchCaller: Server["fetchCaller"],
    end: () => Promise<void>,
  ) {
    this.url = url;
    this.fetchCaller = fetchCaller;
    this.process = new WorkerProcess(pid);
    this.#end = end;
  }

  /** Starts the version of Miniflare that wrangler depends on. `npm start` uses it too. */
  static async start(bundle: Bundle, options: ServerOptions): Promise<Server> {
    const before = new Set(childProcesses());
    const { resolve } = createRequire(import.meta.url);
    const requireLikeWrangler = createRequire(resolve("wrangler/package.json"));
    const { convertV4MiniflareOptions, Log, LogLevel, Miniflare } = requireLikeWrangler(
      "miniflare",
    ) as typeof MiniflarePackage;
    const { compatibilityDate } = bundle;
    const { onLog } = options;
    const service = {
      name: "store-orders",
      modules: [
        { type: "ESModule" as const, path: bundle.script },
        ...bundle.wasm.map((path) => ({ type: "CompiledWasm" as const, path })),
      ],
      modulesRoot: dirname(bundle.script),
      compatibilityDate,
      bindings: options.vars ?? {},
      durableObjects: { RATE_LIMITER: { className: "RateLimiter", useSQLite: true } },
      d1Databases: Object.values(BINDINGS),
    };
    const callers = options.caller === undefined ? [] : [callerOf(options.caller)];
    const miniflare = new Miniflare(
      convertV4MiniflareOptions({
        workers: [service, ...callers.map((caller) => ({ ...caller, compatibilityDate }))],
        resourcePersistencePath: join(options.store, LAYOUT_VERSION),
        host: "127.0.0.1",
        port: 0,
        cf: false,
        log: new Log(LogLevel.NONE),
        ...(onLog && { handleStructuredLogs: ({ message }) => onLog(message) }),
      } as MiniflarePackage.V4MiniflareOptions),
    );
    const url = (await miniflare.ready).origin;
    const [pid] = childProcesses().filter((one) => !before.has(one));
    const fetchCaller = async (path: string, init?: RequestInit) => {
      const caller = await miniflare.getWorker("caller");
      return (await caller.fetch(`http://caller${path}`, init as never)) as unknown as Response;
    };
    return new Server(url, pid!, fetchCaller, async () => {
      await miniflare.dispose();
      if (options.isTemporary) await rm(options.store, { recursive: true });
    });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#end();
  }
}

function callerOf({ script, bindings }: Caller) {
  const names = Object.entries(bindings).map(([name, to]) => {
    return [name, { name: "store-orders", ...to }] as const;
  });
  return {
    name: "caller",
    modules: [{ type: "ESModule" as const, path: script }],
    modulesRoot: dirname(script),
    serviceBindings: Object.fromEntries(names),
  };
}

/** The unit in which Linux reports processor time. */
const TICK_MS = 10;
const SAMPLE_MS = 50;
/** A process is idle if it uses no processor time during this many samples. */
const IDLE_SAMPLES = 6;

/** The workerd process of a server. Its measurements come from `/proc` (proc(5)). */
class WorkerProcess {
  readonly #pid: number;

  constructor(pid: number) {
    this.#pid = pid;
  }

  kill(): void {
    process.kill(this.#pid, "SIGKILL");
  }

  peakBytes(): number {
    const status = readFileSync(`/proc/${this.#pid}/status`, "utf8");
    return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]) * 1_024;
  }

  /** Returns the processor time of the process so far in milliseconds, a multiple of 10. */
  processorMs(): number {
    const [user, system] = statOf(this.#pid).slice(11);
    return (Number(user) + Number(system)) * TICK_MS;
  }

  /** Waits until the process is idle, because the service may fill the cache after a response. */
  async idle(): Promise<void> {
    let before = this.processorMs();
    for (let quiet = 0; quiet < IDLE_SAMPLES;) {
      await wait(SAMPLE_MS);
      const spent = this.processorMs();
      quiet = spent === before ? quiet + 1 : 0;
      before = spent;
    }
  }
}

function childProcesses(): number[] {
  const pids = readdirSync("/proc").map(Number).filter(Number.isInteger);
  return pids.filter((pid) => Number(statOf(pid)[1]) === process.pid);
}

/** Returns the fields of `/proc/PID/stat` after the command's name; none if the process has ended. */
function statOf(pid: number): string[] {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  } catch {
    return [];
  }
}
