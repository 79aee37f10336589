import { withDeadline } from "../deadline.ts";
import type { Segment } from "./manifest.ts";
import { Shorthand } from "./shorthand.ts";

const CACHE_NAME = "order-segments";

/**
 * How long a cache entry lives. Entries never become outdated, but entries of earlier versions
 * waste space.
 */
const LIFETIME_SECONDS = 86_400;

/** The timeout of a cache call. If the cache takes longer, the database is faster. */
const TIMEOUT_MS = 2_000;

/** A cache of groups of segments by name. */
export interface CacheStore {
  has(name: string): Promise<boolean>;
  match(name: string): Promise<Uint8Array<ArrayBuffer> | undefined>;
  put(name: string, text: string): Promise<void>;
}

/** Opens the cache of the Cloudflare data centre. Rejects if the platform has no cache. */
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
 * Reads and writes segments in the data centre's cache, for one request. A cache entry contains a
 * group of segments, and the entry's name consists of their versions. The cache is optional: a
 * segment that the cache lacks or fails to return is read from the database. The drawback: when a
 * segment is split, all groups after it change, so the cache lacks all of these groups.
 */
export class SegmentCache {
  readonly #open: () => Promise<CacheStore>;
  #cache: Promise<CacheStore> | null = null;
  #callsLeft: number;

  /**
   * @param open opens the cache; called when the request first needs the cache.
   * @param maxCalls the most cache calls of the request, because Cloudflare limits them.
   */
  constructor(open: () => Promise<CacheStore>, maxCalls: number) {
    this.#open = open;
    this.#callsLeft = maxCalls;
  }

  /** The number of cache calls that the request may still make. */
  get callsLeft(): number {
    return this.#callsLeft;
  }

  async has(group: readonly Segment[]): Promise<boolean> {
    return (await this.#call((cache) => cache.has(nameOf(group)))) ?? false;
  }

  async get(group: readonly Segment[]): Promise<Shorthand[] | undefined> {
    const bytes = await this.#call((cache) => cache.match(nameOf(group)));
    return bytes && Shorthand.split(bytes);
  }

  /**
   * Stores a group of segments in the cache. Returns false if this fails, or if the request has made
   * all its permitted cache calls.
   */
  async put(group: readonly Segment[], shorthands: readonly Shorthand[]): Promise<boolean> {
    const isKept = await this.#call(async (cache) => {
      await cache.put(nameOf(group), Shorthand.join(shorthands));
      return true;
    });
    return isKept ?? false;
  }

  /**
   * Calls the cache. Returns `undefined` if the call fails or no calls are left. After a failure,
   * the request does not call the cache again.
   */
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

/**
 * Returns the URL of a cache entry. The number in the path is the version of the format: raise it
 * when the shorthand changes.
 */
function urlOf(name: string): string {
  return `https://order-segments.invalid/2/${name}`;
}
