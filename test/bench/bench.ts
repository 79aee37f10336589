import { rm } from "node:fs/promises";
import { type Bundle, bundleService, bundleWorker } from "./bundle.ts";
import type { Request } from "./http.ts";
import { createStore, type Store } from "./store.ts";

/** What the sections of the benchmark share: bundles and stores, each made when first asked for. */
export class Bench implements AsyncDisposable {
  readonly rounds: number;
  /** Orders of the largest store. */
  readonly orders: number;
  readonly folder: string;
  readonly #bundles = new Map<string, Promise<Bundle>>();
  readonly #stores = new Map<number, Promise<Store>>();

  /** @param folder an empty one, removed at the end. */
  constructor(options: { rounds: number; orders: number; folder: string }) {
    this.rounds = options.rounds;
    this.orders = options.orders;
    this.folder = options.folder;
  }

  /** The service itself. */
  service(): Promise<Bundle> {
    return once(this.#bundles, "service", () => {
      this.say("bundling the service");
      return bundleService(this.folder);
    });
  }

  /** A Worker of the benchmark, such as `peers/hello`. */
  worker(name: string): Promise<Bundle> {
    return once(this.#bundles, name, () => {
      this.say(`bundling ${name}`);
      return bundleWorker(this.folder, name);
    });
  }

  store(orders: number): Promise<Store> {
    return once(this.#stores, orders, () => {
      this.say(`importing ${orders} orders`);
      return createStore(this.folder, orders);
    });
  }

  /** Tells on stderr how far the benchmark has come. */
  say(progress: string): void {
    process.stderr.write(`bench: ${progress}\n`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.folder, { recursive: true, force: true });
  }
}

/** A request for the list of orders. */
export function listRequest(
  url: string,
  key: string,
  headers: Record<string, string> = {},
): Request {
  return { url: `${url}/v1/store/orders`, headers: { Authorization: `Bearer ${key}`, ...headers } };
}

function once<Key, Value>(
  made: Map<Key, Promise<Value>>,
  key: Key,
  make: () => Promise<Value>,
): Promise<Value> {
  const value = made.get(key) ?? make();
  made.set(key, value);
  return value;
}
