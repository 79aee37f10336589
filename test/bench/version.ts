import { mkdir } from "node:fs/promises";
import { type Bundle, bundleService } from "./bundle.ts";
import { createStore, type Store } from "./store.ts";

/** A version of the service in a checkout. The bundle and the stores are made on first use. */
export class Version {
  /**
   * The version's name in reports: the commit of the baseline, or an empty string for this
   * checkout.
   */
  readonly name: string;
  readonly #root: string;
  readonly #folder: string;
  readonly #say: (progress: string) => void;
  #bundle: Promise<Bundle> | null = null;
  readonly #stores = new Map<number, Promise<Store>>();

  /**
   * @param root the folder of the checkout.
   * @param folder the folder for the bundle and the stores of this version.
   */
  constructor(options: {
    name: string;
    root: string;
    folder: string;
    say: (progress: string) => void;
  }) {
    this.name = options.name;
    this.#root = options.root;
    this.#folder = options.folder;
    this.#say = options.say;
  }

  service(): Promise<Bundle> {
    this.#bundle ??= this.#makeBundle();
    return this.#bundle;
  }

  store(orders: number): Promise<Store> {
    const store = this.#stores.get(orders) ?? this.#makeStore(orders);
    this.#stores.set(orders, store);
    return store;
  }

  async #makeBundle(): Promise<Bundle> {
    this.#say(`bundling the service ${this.name}`);
    return bundleService(this.#folder, this.#root);
  }

  async #makeStore(orders: number): Promise<Store> {
    this.#say(`importing ${orders} orders ${this.name}`);
    await mkdir(this.#folder, { recursive: true });
    return createStore(this.#folder, orders, this.#root);
  }
}
