import { rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import type * as MiniflarePackage from "miniflare";
import { BINDINGS } from "../../src/operator/database/database.ts";
import { LAYOUT_VERSION } from "../../src/operator/database/local-store.ts";
import type { Bundle } from "./bundle.ts";
import { childProcesses, WorkerProcess } from "./worker-process.ts";

interface ServerOptions {
  readonly store: string;
  readonly vars?: Readonly<Record<string, string>>;
  /** Whether the disposal of the server removes the store. */
  readonly isTemporary?: boolean;
}

/** A Worker, with the Durable Object class `RateLimiter`, in a workerd process on its own port. */
export class Server implements AsyncDisposable {
  readonly url: string;
  readonly process: WorkerProcess;
  readonly #miniflare: MiniflarePackage.Miniflare;
  readonly #options: ServerOptions;

  private constructor(
    miniflare: MiniflarePackage.Miniflare,
    options: ServerOptions,
    url: string,
    pid: number,
  ) {
    this.#miniflare = miniflare;
    this.#options = options;
    this.url = url;
    this.process = new WorkerProcess(pid);
  }

  /** Starts the version of Miniflare that wrangler depends on. `npm start` uses it too. */
  static async start(bundle: Bundle, options: ServerOptions): Promise<Server> {
    const before = new Set(childProcesses());
    const { resolve } = createRequire(import.meta.url);
    const requireLikeWrangler = createRequire(resolve("wrangler/package.json"));
    const { convertV4MiniflareOptions, Log, LogLevel, Miniflare } = requireLikeWrangler(
      "miniflare",
    ) as typeof MiniflarePackage;
    const miniflare = new Miniflare(
      convertV4MiniflareOptions({
        modules: [
          { type: "ESModule", path: bundle.script },
          ...bundle.wasm.map((path) => ({ type: "CompiledWasm" as const, path })),
        ],
        modulesRoot: dirname(bundle.script),
        compatibilityDate: bundle.compatibilityDate,
        bindings: options.vars ?? {},
        durableObjects: { RATE_LIMITER: { className: "RateLimiter", useSQLite: true } },
        d1Databases: Object.values(BINDINGS),
        resourcePersistencePath: join(options.store, LAYOUT_VERSION),
        host: "127.0.0.1",
        port: 0,
        cf: false,
        log: new Log(LogLevel.NONE),
      }),
    );
    const url = (await miniflare.ready).origin;
    const [pid] = childProcesses().filter((one) => !before.has(one));
    return new Server(miniflare, options, url, pid!);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#miniflare.dispose();
    const { store, isTemporary = false } = this.#options;
    if (isTemporary) await rm(store, { recursive: true });
  }
}
