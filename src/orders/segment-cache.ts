import { withDeadline } from "../deadline.ts";
import { Shorthand } from "./shorthand.ts";

const CACHE_NAME = "order-segments";

/** A segment never changes; an entry of a version that has passed only takes up space. */
const LIFETIME_SECONDS = 86_400;

/** A cache that takes longer than the database would is not waited for. */
const TIMEOUT_MS = 2_000;

/** Where segments are kept by their version. */
export interface CacheStore {
  match(version: string): Promise<Uint8Array<ArrayBuffer> | undefined>;
  put(version: string, bytes: Uint8Array<ArrayBuffer>): Promise<void>;
}

/** Opens the data centre's cache. @throws if there is none. */
export async function openSegmentCache(): Promise<CacheStore> {
  const cache = await caches.open(CACHE_NAME);
  return {
    async match(version) {
      const response = await cache.match(urlOf(version));
      return response && new Uint8Array(await response.arrayBuffer());
    },
    async put(version, bytes) {
      const headers = { "Cache-Control": `max-age=${LIFETIME_SECONDS}` };
      await cache.put(urlOf(version), new Response(bytes, { headers }));
    },
  };
}

/**
 * The segments in the data centre's cache, as one request may use it. Nothing depends on the cache:
 * a segment that it lacks, or fails to return, is read from the database.
 */
export class SegmentCache {
  readonly #open: () => Promise<CacheStore>;
  readonly #waitUntil: (promise: Promise<unknown>) => void;
  #cache: Promise<CacheStore | null> | null = null;
  #callsLeft: number;

  /**
   * @param open called when the cache is first needed.
   * @param maxCalls how often the request may call the cache, which the platform limits.
   */
  constructor(
    open: () => Promise<CacheStore>,
    maxCalls: number,
    waitUntil: (promise: Promise<unknown>) => void,
  ) {
    this.#open = open;
    this.#callsLeft = maxCalls;
    this.#waitUntil = waitUntil;
  }

  async get(version: string): Promise<Shorthand | undefined> {
    const cache = await this.#call();
    if (cache === null) return undefined;
    try {
      const bytes = await withDeadline(cache.match(version), TIMEOUT_MS);
      return bytes && new Shorthand(bytes);
    } catch {
      return this.#fail();
    }
  }

  /** Keeps a segment, without making the request wait. */
  put(version: string, shorthand: Shorthand): void {
    this.#waitUntil(this.#put(version, shorthand));
  }

  async #put(version: string, { bytes }: Shorthand): Promise<void> {
    const cache = await this.#call();
    if (cache === null) return;
    try {
      await cache.put(version, bytes);
    } catch {
      this.#fail();
    }
  }

  async #call(): Promise<CacheStore | null> {
    if (this.#callsLeft <= 0) return null;
    this.#callsLeft -= 1;
    this.#cache ??= openOrNull(this.#open);
    return this.#cache;
  }

  /** Asks a cache that has failed for nothing more. */
  #fail(): undefined {
    this.#callsLeft = 0;
  }
}

async function openOrNull(open: () => Promise<CacheStore>): Promise<CacheStore | null> {
  try {
    return await withDeadline(open(), TIMEOUT_MS);
  } catch {
    return null;
  }
}

/** The number is that of the format; raise it when the shorthand changes. */
function urlOf(version: string): string {
  return `https://order-segments.invalid/1/${version}`;
}
