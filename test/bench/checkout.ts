import { cp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { PROJECT_ROOT } from "../../src/operator/wrangler.ts";
import { MAX_LIMIT } from "../../src/rules/limits/plans.ts";
import { bundleWorker, run } from "../support/bundle.ts";
import { Server } from "../support/server.ts";

/** A `scarce` key admits one request a day. */
const LIMITS = { unlimited: MAX_LIMIT, other: MAX_LIMIT, scarce: 1 };
type Keys = Readonly<Record<keyof typeof LIMITS, string>>;

interface ServeOptions {
  /** The number of orders in the store. */
  readonly orders?: number;
  readonly vars?: Readonly<Record<string, string>>;
  /** How many keys without a limit the store has beside the named ones. */
  readonly furtherKeys?: number;
}

/** A running service and the secrets of the keys in its store. */
export type Served = Server & { readonly keys: Keys; readonly furtherKeys: readonly string[] };

/** A checkout of the service: this one, or another commit, whose own commands make its stores. */
export class Checkout {
  readonly name: string;
  readonly #root: string;
  readonly #folder: string;
  readonly #made = new Map<string, Promise<unknown>>();
  #copies = 0;

  /** @param folder a temporary folder for bundles and stores. */
  constructor(name: string, root: string, folder: string) {
    this.name = name;
    this.#root = root;
    this.#folder = join(folder, name);
  }

  /** Serves the service on a new copy of a store. The server's disposal removes the copy. */
  async serve({ orders = 10, vars = {}, furtherKeys = 0 }: ServeOptions = {}): Promise<Served> {
    const bundle = await this.#once("bundling", async () => {
      // Every version is measured with today's Worker around it.
      const files = ["bench/delayed-service.ts", "support/observed-bindings.ts"];
      const around = join(this.#root, ".wrangler");
      for (const file of files) await cp(join(PROJECT_ROOT, "test", file), join(around, file));
      return bundleWorker(this.#root, join(around, files[0]!), join(this.#folder, "bundle"));
    });
    const { store, keys } = await this.#once(`importing ${orders} orders`, () =>
      this.#importOrders(orders),
    );
    const further: string[] = [];
    while (further.length < furtherKeys) {
      const name = `key ${further.length + 1}`;
      const create = () => this.#createKey(store, name, MAX_LIMIT);
      further.push(await this.#once(`creating ${name} in a store of ${orders} orders`, create));
    }
    const copy = join(this.#folder, `copy-${++this.#copies}`);
    await cp(store, copy, { recursive: true });
    const server = await Server.start(bundle, { store: copy, vars, isTemporary: true });
    return Object.assign(server, { keys, furtherKeys: further });
  }

  async #importOrders(orders: number): Promise<{ store: string; keys: Keys }> {
    const store = join(this.#folder, `store-${orders}`);
    const lines = Array.from({ length: orders }, (_, index) => {
      const shipDate = new Date(Date.UTC(2026, 0, 1) + index * 12_345).toISOString();
      const rest = `"petId":${index % 5_000},"quantity":${index % 9},"shipDate":"${shipDate}"`;
      return `{"id":${index},${rest},"complete":${index % 3 === 0}}\n`;
    });
    const file = join(this.#folder, `orders-${orders}.ndjson`);
    await writeFile(file, lines.join(""));
    await this.#run(store, "orders", "import", file);
    const keys: Record<string, string> = {};
    for (const [name, limit] of Object.entries(LIMITS)) {
      keys[name] = await this.#createKey(store, name, limit);
    }
    return { store, keys: keys as Keys };
  }

  #run(store: string, name: string, ...args: string[]): Promise<string> {
    return run("npm", ["run", "-s", name, "--", ...args, "--persist-to", store], this.#root);
  }

  /** Returns the secret of a new key with this limit in both windows. */
  async #createKey(store: string, name: string, limit: number): Promise<string> {
    const limits = ["--per-minute", String(limit), "--per-day", String(limit)];
    const key = ["--name", name, "--plan", "enterprise", "--json"];
    const created = await this.#run(store, "keys", "create", ...key, ...limits);
    return (JSON.parse(created) as { key: string }).key;
  }

  #once<Value>(what: string, make: () => Promise<Value>): Promise<Value> {
    if (!this.#made.has(what)) {
      say(`${this.name}: ${what}`);
      this.#made.set(what, make());
    }
    return this.#made.get(what) as Promise<Value>;
  }
}

/** Prints progress, on stderr. */
export function say(progress: string): void {
  process.stderr.write(`bench: ${progress}\n`);
}
