import { withDeadline } from "../deadline.ts";
import type { Segment } from "./manifest.ts";
import { Shorthand } from "./shorthand.ts";

const CACHE_NAME = "order-segments";

/** A segment never changes; an entry of a version that has passed only takes up space. */
const LIFETIME_SECONDS = 86_400;

/** A cache that takes longer than the database would is not waited for. */
const TIMEOUT_MS = 2_000;

/** Where groups of segments are kept by their name. */
export interface CacheStore {
  has(name: string): Promise<boolean>;
  match(name: string): Promise<Uint8Array<ArrayBuffer> | undefined>;
  put(name: string, text: string): Promise<void>;
}

/** Opens the data centre's cache. @throws if there is none. */
export async function openSegmentCache(): Promise<CacheStore> {
  const cache = await caches.open(CACHE_NAME);
  return {
    async has(name) {
      const response = await cache.match(urlOf(name));
      await response?.body?.cancel();
      return response !== undefined;
    },
    async match(name) {
      const response = await cache.match(urlOf(name));
      return response && new Uint8Array(await response.arrayBuffer());
    },
    async put(name, text) {
      const headers = { "Cache-Control": `max-age=${LIFETIME_SECONDS}` };
      await cache.put(urlOf(name), new Response(text, { headers }));
    },
  };
}

/**
 * The segments in the data centre's cache, as one request may use it. An entry holds a group of
 * segments and is named by their versions. Nothing depends on the cache: what it lacks, or fails to
 * return, is read from the database.
 */
export class SegmentCache {
  readonly #open: () => Promise<CacheStore>;
  #cache: Promise<CacheStore> | null = null;
  #callsLeft: number;

  /**
   * @param open called when the cache is first needed.
   * @param maxCalls how often the request may call the cache, which the platform limits.
   */
  constructor(open: () => Promise<CacheStore>, maxCalls: number) {
    this.#open = open;
    this.#callsLeft = maxCalls;
  }

  async has(group: readonly Segment[]): Promise<boolean> {
    return (await this.#call((cache) => cache.has(nameOf(group)))) ?? false;
  }

  async get(group: readonly Segment[]): Promise<Shorthand[] | undefined> {
    const bytes = await this.#call((cache) => cache.match(nameOf(group)));
    return bytes && Shorthand.split(bytes);
  }

  /** @returns whether the cache has the group now. */
  async put(group: readonly Segment[], shorthands: readonly Shorthand[]): Promise<boolean> {
    const text = Shorthand.join(shorthands);
    const isKept = await this.#call(async (cache) => {
      await cache.put(nameOf(group), text);
      return true;
    });
    return isKept ?? false;
  }

  /** Asks a cache that has failed for nothing more. */
  async #call<T>(ask: (cache: CacheStore) => Promise<T>): Promise<T | undefined> {
    if (this.#callsLeft <= 0) return undefined;
    this.#callsLeft -= 1;
    try {
      const cache = await (this.#cache ??= withDeadline(this.#open(), TIMEOUT_MS));
      return await withDeadline(ask(cache), TIMEOUT_MS);
    } catch {
      this.#callsLeft = 0;
      return undefined;
    }
  }
}

function nameOf(group: readonly Segment[]): string {
  return group.map(({ version }) => version).join(".");
}

/** The number is that of the format; raise it when the shorthand changes. */
function urlOf(name: string): string {
  return `https://order-segments.invalid/2/${name}`;
}
