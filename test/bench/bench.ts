import { rm } from "node:fs/promises";
import { join } from "node:path";
import { PROJECT_ROOT } from "../../src/operator/wrangler.ts";
import { BASELINE_COMMIT, checkOutBaseline, removeBaseline } from "./baseline.ts";
import { type Bundle, bundleWorker } from "./bundle.ts";
import type { Request } from "./http.ts";
import type { Store } from "./store.ts";
import { Version } from "./version.ts";

/** The bundles and stores that the benchmark's sections share. Each is made on first use. */
export class Bench implements AsyncDisposable {
  readonly rounds: number;
  /** The number of orders in the largest store. */
  readonly orders: number;
  readonly folder: string;
  /** The service as it is in this checkout. */
  readonly today: Version;
  readonly #workers = new Map<string, Promise<Bundle>>();
  readonly #baselineRoot: string;
  #baseline: Promise<Version | null> | null = null;

  /**
   * @param folder an empty folder for bundles and stores, which the disposal of the `Bench`
   *   removes.
   */
  constructor(options: { rounds: number; orders: number; folder: string }) {
    const { rounds, orders, folder } = options;
    this.rounds = rounds;
    this.orders = orders;
    this.folder = folder;
    this.today = new Version({ name: "", root: PROJECT_ROOT, folder, say: this.say });
    this.#baselineRoot = join(folder, "baseline");
  }

  /** Bundles the service of this checkout. */
  service(): Promise<Bundle> {
    return this.today.service();
  }

  /** Checks out the baseline commit; returns `null` if this git clone lacks the commit. */
  baseline(): Promise<Version | null> {
    this.#baseline ??= this.#checkOut();
    return this.#baseline;
  }

  /** Bundles a Worker of the benchmark, such as `peers/hello`. */
  worker(name: string): Promise<Bundle> {
    const bundle = this.#workers.get(name) ?? this.#bundle(name);
    this.#workers.set(name, bundle);
    return bundle;
  }

  store(orders: number): Promise<Store> {
    return this.today.store(orders);
  }

  /** Reports progress on stderr. */
  readonly say = (progress: string): void => {
    process.stderr.write(`bench: ${progress.trim()}\n`);
  };

  async [Symbol.asyncDispose](): Promise<void> {
    // Ignores a failed checkout of the baseline commit: the section that needed the checkout has
    // already thrown the error.
    const baseline = await this.#baseline?.catch(() => null);
    if (baseline != null) await removeBaseline(this.#baselineRoot);
    await rm(this.folder, { recursive: true, force: true });
  }

  #bundle(name: string): Promise<Bundle> {
    this.say(`bundling ${name}`);
    return bundleWorker(this.folder, name);
  }

  async #checkOut(): Promise<Version | null> {
    this.say(`checking out ${BASELINE_COMMIT}`);
    const root = this.#baselineRoot;
    const problem = await checkOutBaseline(root);
    if (problem !== null) {
      this.say(`every line against ${BASELINE_COMMIT} is left out: ${problem}`);
      return null;
    }
    const folder = join(this.folder, BASELINE_COMMIT);
    return new Version({ name: BASELINE_COMMIT, root, folder, say: this.say });
  }
}

/** Returns a request for the list of orders. */
export function listRequest(
  url: string,
  key: string,
  headers: Record<string, string> = {},
): Request {
  return { url: `${url}/v1/store/orders`, headers: { Authorization: `Bearer ${key}`, ...headers } };
}
