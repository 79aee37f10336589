import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import type * as MiniflarePackage from "miniflare";
import { LAYOUT_VERSION } from "../../src/cli/database/local-store.ts";
import type { Bundle } from "./bundle.ts";
import { childProcesses, WorkerProcess } from "./worker-process.ts";

/** What a Worker is served with. */
export interface ServerOptions {
  /** The folder of the store that it reads. */
  readonly store: string;
  /** Whether it has a class `RateLimiter` for Durable Objects. */
  readonly hasObjects?: boolean;
  readonly vars?: Record<string, string | number>;
}

/** A Worker that answers on Miniflare's own port, in a workerd process of its own. */
export class Server implements AsyncDisposable {
  readonly url: string;
  readonly process: WorkerProcess;
  readonly #miniflare: MiniflarePackage.Miniflare;

  private constructor(miniflare: MiniflarePackage.Miniflare, url: string, process: WorkerProcess) {
    this.#miniflare = miniflare;
    this.url = url;
    this.process = process;
  }

  static async start(bundle: Bundle, options: ServerOptions): Promise<Server> {
    const before = new Set(childProcesses());
    const miniflare = createMiniflare(bundle, options);
    const url = (await miniflare.ready).origin;
    const started = childProcesses().filter((pid) => !before.has(pid));
    if (started.length !== 1) throw new Error(`Expected one new process, not ${started.length}.`);
    return new Server(miniflare, url, new WorkerProcess(started[0] ?? 0));
  }

  /** Changes the version of the list of orders and nothing else. */
  async changeOrderList(): Promise<void> {
    const database = await this.#miniflare.getD1Database("DB");
    await database.exec("UPDATE orders SET quantity = coalesce(quantity, 0) + 1 WHERE id = 2");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#miniflare.dispose();
  }
}

/** The Miniflare that wrangler brings, so that the benchmark runs what `npm start` runs. */
function createMiniflare(
  { script, wasm, compatibilityDate }: Bundle,
  { store, hasObjects = false, vars = {} }: ServerOptions,
): MiniflarePackage.Miniflare {
  const { resolve } = createRequire(import.meta.url);
  const requireLikeWrangler = createRequire(resolve("wrangler/package.json"));
  const { convertV4MiniflareOptions, Log, LogLevel, Miniflare } = requireLikeWrangler(
    "miniflare",
  ) as typeof MiniflarePackage;
  const limiter = { RATE_LIMITER: { className: "RateLimiter", useSQLite: true } };
  return new Miniflare(
    convertV4MiniflareOptions({
      modules: [
        { type: "ESModule", path: script },
        ...wasm.map((path) => ({ type: "CompiledWasm" as const, path })),
      ],
      modulesRoot: dirname(script),
      compatibilityDate,
      bindings: vars,
      d1Databases: ["DB"],
      durableObjects: hasObjects ? limiter : {},
      resourcePersistencePath: join(store, LAYOUT_VERSION),
      host: "127.0.0.1",
      port: 0,
      cf: false,
      log: new Log(LogLevel.NONE),
    }),
  );
}
