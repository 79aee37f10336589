import { rmSync } from "node:fs";
import { cp } from "node:fs/promises";
import { join } from "node:path";
import { PROJECT_ROOT } from "../../src/operator/wrangler.ts";
import {
  BASELINE_COMMIT,
  type Bundle,
  bundleWorker,
  checkOutBaseline,
  removeBaseline,
  type Worker,
} from "./bundle.ts";
import { Server } from "./server.ts";
import { createKeys, createStore, type Keys } from "./store.ts";

export type Version = "today" | "baseline";

interface ServeOptions {
  readonly worker?: Worker;
  readonly version?: Version;
  readonly orders?: number;
  readonly vars?: Readonly<Record<string, string>>;
}

/** Makes the bundles and stores that the benchmark's sections share, each on its first use. */
export class Bench {
  readonly rounds: number;
  /** The number of orders in the largest store. */
  readonly orders: number;
  readonly folder: string;
  readonly keys: Keys = createKeys();
  readonly #made = new Map<string, Promise<unknown>>();
  #copies = 0;

  constructor(options: { rounds: number; orders: number; folder: string }) {
    this.rounds = options.rounds;
    this.orders = options.orders;
    this.folder = options.folder;
  }

  /**
   * Serves a Worker on a new copy of a store. The disposal of the server removes the copy. The
   * baseline too uses copies of today's store, because earlier versions must work with that store.
   */
  async serve(options: ServeOptions = {}): Promise<Server> {
    const { worker = "service", version = "today", orders = 10, vars = {} } = options;
    const bundle = await this.bundle(worker, version);
    const store = join(this.folder, `copy-${++this.#copies}`);
    await cp(await this.#store(orders), store, { recursive: true });
    return Server.start(bundle, { store, vars, isTemporary: true });
  }

  bundle(worker: Worker, version: Version = "today"): Promise<Bundle> {
    return this.#once(`bundling ${worker}, ${version}`, async () => {
      const root = version === "today" ? PROJECT_ROOT : await this.#baseline();
      // The baseline uses today's `observed` Workers, so that both versions are measured alike.
      if (root !== PROJECT_ROOT) {
        const observed = "test/bench/observed";
        await cp(join(PROJECT_ROOT, observed), join(root, observed), { recursive: true });
      }
      return bundleWorker(worker, root, join(this.folder, `bundles-${version}`));
    });
  }

  orderFile(orders: number): string {
    return join(this.folder, `orders-${orders}.ndjson`);
  }

  readonly say = (progress: string): void => {
    process.stderr.write(`bench: ${progress}\n`);
  };

  /** Removes all files synchronously, because Miniflare ends the process at once after a signal. */
  remove(): void {
    if (this.#made.has(CHECKOUT)) removeBaseline(this.#baselineRoot);
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
  }

  get #baselineRoot(): string {
    return join(this.folder, "baseline");
  }

  #baseline(): Promise<string> {
    return this.#once(CHECKOUT, async () => {
      await checkOutBaseline(this.#baselineRoot);
      return this.#baselineRoot;
    });
  }

  #store(orders: number): Promise<string> {
    return this.#once(`importing ${orders} orders`, () =>
      createStore(join(this.folder, `store-${orders}`), orders, this.orderFile(orders), this.keys),
    );
  }

  #once<Value>(progress: string, make: () => Promise<Value>): Promise<Value> {
    const made = this.#made.get(progress);
    if (made !== undefined) return made as Promise<Value>;
    this.say(progress);
    const making = make();
    this.#made.set(progress, making);
    return making;
  }
}

const CHECKOUT = `checking out ${BASELINE_COMMIT}`;
