import { rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { LAYOUT_VERSION } from "../../src/operator/database/local-store.ts";
import type { Bundle } from "./bundle.ts";
import { bindingsOf, createMiniflare, type Miniflare } from "./miniflare.ts";
import { childProcesses, WorkerProcess } from "./worker-process.ts";

/** The store and the configuration of a Worker. */
interface ServerOptions {
  /** The folder of the store. */
  readonly store: string;
  /** Whether the Worker exports the Durable Object class `RateLimiter`. */
  readonly hasObjects?: boolean;
  readonly vars?: Record<string, string | number>;
}

/** A Worker that Miniflare runs in its own workerd process and serves on its own port. */
export class Server implements AsyncDisposable {
  readonly url: string;
  readonly process: WorkerProcess;
  readonly #miniflare: Miniflare;
  readonly #store: string;

  private constructor(miniflare: Miniflare, store: string, url: string, process: WorkerProcess) {
    this.#miniflare = miniflare;
    this.#store = store;
    this.url = url;
    this.process = process;
  }

  static async start(
    { script, wasm, compatibilityDate }: Bundle,
    { store, hasObjects = false, vars = {} }: ServerOptions,
  ): Promise<Server> {
    const before = new Set(childProcesses());
    const limiter = { RATE_LIMITER: { className: "RateLimiter", useSQLite: true } };
    const miniflare = createMiniflare(store, {
      modules: [
        { type: "ESModule", path: script },
        ...wasm.map((path) => ({ type: "CompiledWasm" as const, path })),
      ],
      modulesRoot: dirname(script),
      compatibilityDate,
      bindings: vars,
      durableObjects: hasObjects ? limiter : {},
    });
    const url = (await miniflare.ready).origin;
    const started = childProcesses().filter((pid) => !before.has(pid));
    if (started.length !== 1) throw new Error(`Expected one new process, not ${started.length}.`);
    return new Server(miniflare, store, url, new WorkerProcess(started[0] ?? 0));
  }

  /**
   * Starts a Worker with an empty Cache API, whose content Miniflare keeps in the store's folder.
   */
  static async startWithoutCache(bundle: Bundle, options: ServerOptions): Promise<Server> {
    await rm(join(options.store, LAYOUT_VERSION, "cache"), { recursive: true, force: true });
    return Server.start(bundle, options);
  }

  /**
   * Changes an order and then restores it: the list gets a new version but the same content.
   *
   * @param id the id of an order that has the field `complete`.
   */
  async changeOrderList(id = 2): Promise<void> {
    const database = await this.#miniflare.getD1Database(bindingsOf(this.#store).orders);
    const change = `UPDATE orders SET complete = NOT complete WHERE id = ${id}`;
    await database.exec(`${change}\n${change}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#miniflare.dispose();
  }
}
