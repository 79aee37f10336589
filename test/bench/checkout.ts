import { cp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { PROJECT_ROOT } from "../../src/operator/wrangler.ts";
import { MAX_LIMIT } from "../../src/rules/limits/plans.ts";
import { bundleWorker, run } from "../support/bundle.ts";
import { startServer } from "../support/server.ts";

export interface ServeOptions {
  /** The number of orders in the store. */
  readonly orders?: number;
  readonly vars?: Readonly<Record<string, string>>;
  /** The number of keys in the store. */
  readonly keys?: number;
  /** How many requests each key may send in a minute and in a day. */
  readonly limit?: number;
}

/** A running service, with the secrets of keys in its store. */
export type Served = Awaited<ReturnType<Checkout["serve"]>>;

/** A checkout of the service: this one, or another commit, whose own commands make its stores. */
export class Checkout {
  readonly #name: string;
  readonly #root: string;
  readonly #folder: string;
  readonly #made = new Map<string, Promise<unknown>>();
  #copies = 0;

  /** @param folder a temporary folder for bundles and stores. */
  constructor(name: string, root: string, folder: string) {
    this.#name = name;
    this.#root = root;
    this.#folder = join(folder, name);
  }

  /** Serves the service on a new copy of a store. The server's disposal removes the copy. */
  async serve({ orders = 10, vars = {}, keys: count = 1, limit = MAX_LIMIT }: ServeOptions) {
    const bundle = await this.#once("bundling", async () => {
      // Every version is measured with today's Worker around it.
      const files = ["bench/delayed-service.ts", "support/wrapped-bindings.ts"];
      const around = join(this.#root, ".wrangler");
      for (const file of files) await cp(join(PROJECT_ROOT, "test", file), join(around, file));
      return bundleWorker(this.#root, join(around, files[0]!), join(this.#folder, "bundle"));
    });
    const store = await this.#once(`importing ${orders} orders`, () => this.#importOrders(orders));
    const keys: string[] = [];
    while (keys.length < count) {
      const name = `key ${keys.length + 1} with the limit ${limit}`;
      const what = `creating ${name} in a store of ${orders} orders`;
      keys.push(await this.#once(what, () => this.#createKey(store, name, String(limit))));
    }
    const copy = join(this.#folder, `copy-${++this.#copies}`);
    await cp(store, copy, { recursive: true });
    const server = await startServer(bundle, { store: copy, vars, isTemporary: true });
    return Object.assign(server, { keys });
  }

  /** Returns the folder of a new store with so many orders. */
  async #importOrders(orders: number): Promise<string> {
    const store = join(this.#folder, `store-${orders}`);
    const lines = Array.from({ length: orders }, (_, index) => {
      const shipDate = new Date(Date.UTC(2026, 0, 1) + index * 12_345).toISOString();
      const rest = `"petId":${index % 5_000},"quantity":${index % 9},"shipDate":"${shipDate}"`;
      return `{"id":${index},${rest},"complete":${index % 3 === 0}}\n`;
    });
    const file = join(this.#folder, `orders-${orders}.ndjson`);
    await writeFile(file, lines.join(""));
    await this.#run(store, "orders", "import", file);
    return store;
  }

  /** Returns the secret of a new key with this limit in both windows. */
  async #createKey(store: string, name: string, limit: string): Promise<string> {
    const limits = ["--per-minute", limit, "--per-day", limit];
    const key = ["--name", name, "--plan", "enterprise", "--json"];
    const created = await this.#run(store, "keys", "create", ...key, ...limits);
    return (JSON.parse(created) as { key: string }).key;
  }

  #run(store: string, name: string, ...args: string[]): Promise<string> {
    return run("npm", ["run", "-s", name, "--", ...args, "--persist-to", store], this.#root);
  }

  #once<Value>(what: string, make: () => Promise<Value>): Promise<Value> {
    if (!this.#made.has(what)) {
      say(`${this.#name}: ${what}`);
      this.#made.set(what, make());
    }
    return this.#made.get(what) as Promise<Value>;
  }
}

/** Prints progress, on stderr. */
export function say(progress: string): void {
  process.stderr.write(`bench: ${progress}\n`);
}
