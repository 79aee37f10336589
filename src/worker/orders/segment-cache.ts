import { withDeadline } from "../deadline.ts";
import type { Segment } from "./manifest.ts";
import { Shorthand } from "./shorthand.ts";

const CACHE_NAME = "order-segments";

/** Entries never become wrong, but entries of earlier versions take up space. */
const LIFETIME_SECONDS = 86_400;

/** Beyond this time, the database is the faster source. */
const TIMEOUT_MS = 2_000;

/** A store of groups of segments by name. */
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
 * The segments in the data centre's cache, for one request. An entry holds a group of segments, and
 * its name is made of their versions. The cache is optional: the database has every segment that the
 * cache lacks or fails to return. The trade: when a segment is split, all groups after it are formed
 * anew, and the cache has none of them.
 */
export class SegmentCache {
  readonly #open: () => Promise<CacheStore>;
  #cache: Promise<CacheStore> | null = null;
  #callsLeft: number;

  /**
   * @param open called when the cache is first needed.
   * @param maxCalls cache calls of the request, which the platform limits.
   */
  constructor(open: () => Promise<CacheStore>, maxCalls: number) {
    this.#open = open;
    this.#callsLeft = maxCalls;
  }

  /** The calls that the request may still make. */
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

  /** @returns whether the cache has accepted the group. */
  async put(group: readonly Segment[], shorthands: readonly Shorthand[]): Promise<boolean> {
    const isKept = await this.#call(async (cache) => {
      await cache.put(nameOf(group), Shorthand.join(shorthands));
      return true;
    });
    return isKept ?? false;
  }

  /** Calls the cache. After a failure, the request calls it no more. */
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

/** The number is the version of the format; raise it when the shorthand changes. */
function urlOf(name: string): string {
  return `https://order-segments.invalid/2/${name}`;
}
