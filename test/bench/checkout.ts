import { cp } from "node:fs/promises";
import { join } from "node:path";
import { PROJECT_ROOT } from "../../src/operator/wrangler.ts";
import { MAX_LIMIT } from "../../src/rules/limits/plans.ts";
import { writeOrderFile } from "./order-file.ts";
import { type Bundle, bundleWorker, run } from "./bundle.ts";
import { Server } from "./server.ts";

/** The name of a Worker: the service, or a file in `test/bench/workers`. */
export type Worker = "service" | "delayed-service" | "hello" | "bare-object-call" | "bare-request";

interface ServeOptions {
  readonly worker?: Worker;
  /** The number of orders in the store. */
  readonly orders?: number;
  readonly vars?: Readonly<Record<string, string>>;
}

/** Secrets by the benchmark's name for the key. A `scarce` key admits one request a day. */
export type Keys = Readonly<Record<(typeof KEY_NAMES)[number], string>>;
const KEY_NAMES = ["unlimited", "other", "scarce", "banned"] as const;

/** A served Worker and the keys of its store. */
export type Served = Server & { readonly keys: Keys };

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

  /** Serves a Worker on a new copy of a store, which the disposal of the server removes. */
  async serve({ worker = "service", orders = 10, vars = {} }: ServeOptions = {}): Promise<Served> {
    const bundle = await this.#once(`bundling ${worker}`, () => this.#bundle(worker));
    const { store, keys } = await this.#once(`importing ${orders} orders`, () =>
      this.#store(orders),
    );
    const copy = join(this.#folder, `copy-${++this.#copies}`);
    await cp(store, copy, { recursive: true });
    const server = await Server.start(bundle, { store: copy, vars, isTemporary: true });
    return Object.assign(server, { keys });
  }

  orderFile(orders: number): string {
    return join(this.#folder, `orders-${orders}.ndjson`);
  }

  async #bundle(worker: Worker): Promise<Bundle> {
    // Every version is measured with today's Workers around it.
    const workers = join(this.#root, ".wrangler", "bench", "workers");
    await cp(join(PROJECT_ROOT, "test/bench/workers"), workers, { recursive: true });
    return bundleWorker(
      this.#root,
      worker === "service" ? null : join(workers, `${worker}.ts`),
      join(this.#folder, worker),
    );
  }

  async #store(orders: number): Promise<{ store: string; keys: Keys }> {
    const store = join(this.#folder, `store-${orders}`);
    const file = this.orderFile(orders);
    await writeOrderFile(file, orders);
    const command = (...args: string[]) =>
      run(process.execPath, ["src/operator/main.ts", ...args, "--persist-to", store], this.#root);
    await command("orders", "import", file);
    const keys: Record<string, string> = {};
    for (const name of KEY_NAMES) {
      const limit = String(name === "unlimited" || name === "other" ? MAX_LIMIT : 1);
      const limits = ["--per-minute", limit, "--per-day", limit];
      const key = ["--name", name, "--plan", "enterprise", "--json"];
      const created = await command("keys", "create", ...key, ...limits);
      keys[name] = (JSON.parse(created) as { key: string }).key;
    }
    return { store, keys: keys as Keys };
  }

  #once<Value>(what: string, make: () => Promise<Value>): Promise<Value> {
    const made = this.#made.get(what);
    if (made !== undefined) return made as Promise<Value>;
    say(`${this.name}: ${what}`);
    const making = make();
    this.#made.set(what, making);
    return making;
  }
}

/** Prints progress, on stderr. */
export function say(progress: string): void {
  process.stderr.write(`bench: ${progress}\n`);
}
