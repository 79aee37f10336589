import { CoalescedRead } from "../db/coalesced-read.ts";
import { cachedOrderList, cacheOrderList, dropCachedOrderList } from "./order-list-cache.ts";
import { orderListStream } from "./order-list-stream.ts";
import type { OrderPage, OrderPages } from "./order-pages.ts";

/** After this time an isolate offers the cache a version once more that it has not taken. */
const CACHE_RETRY_MS = 600_000;

/** So many requests of an isolate ask for the version at once, so that an unchanged list costs the database little. */
const VERSION_CONCURRENCY = 4;

/** The list of orders at one version. */
export interface OrderList {
  readonly version: string;
  /** Whether the caller has this version. */
  readonly isKnown: boolean;
  /** A JSON array; `null` where the caller knows the version or asked for nothing else. */
  readonly body: Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> | null;
}

/** The request that a list is read for. */
export interface ListRequest {
  /** Versions that the caller has, or `"*"` for whichever there is. */
  readonly knownVersions: readonly string[] | "*";
  /** Whether the caller asked for the version alone. */
  readonly isHead: boolean;
  /** Is told why a list broke off midway. */
  readonly onBroken: (error: unknown) => void;
  readonly waitUntil: (promise: Promise<unknown>) => void;
}

/**
 * Reads the list of orders at the cost of what changed: while its version stands in the database, a
 * list of one page is served from the isolate's memory and a longer one from the data centre's
 * cache.
 */
export class OrderLists {
  readonly #version: CoalescedRead<string>;
  #short: { readonly version: string; readonly json: Uint8Array<ArrayBuffer> } | null = null;
  /** The version that the cache is known to have. */
  #cachedVersion: string | null = null;
  /** Whether the last reading met a version that was known already. */
  #isSteady = false;
  #offer = { version: "", atMs: 0, isOpen: false };

  /** @param timeoutMs within which a query of the pages ends. */
  constructor(timeoutMs: number) {
    this.#version = new CoalescedRead({ concurrency: VERSION_CONCURRENCY, timeoutMs });
  }

  /** @throws {DatabaseUnavailableError} */
  async read(pages: OrderPages, request: ListRequest): Promise<OrderList> {
    const { knownVersions, isHead } = request;
    if (isHead || knownVersions === "*") {
      const version = await this.#readVersion(pages, request);
      const isKnown = knownVersions === "*" || knownVersions.includes(version);
      return { version, isKnown, body: null };
    }
    const first = await this.#first(pages, request, knownVersions);
    const { version } = first;
    if (knownVersions.includes(version)) return { version, isKnown: true, body: null };
    if (this.#short?.version === version) return whole(version, this.#short.json);
    if (this.#cachedVersion !== version) return this.#build(pages, first, request);

    const cached = await cachedOrderList(version);
    if (cached !== null) return whole(version, cached);
    this.#cachedVersion = null; // The cache has let it go, and no page of it has been read.
    return this.#build(pages, await pages.first(), request);
  }

  /**
   * Reads the first page, unless its version is known to the caller or kept here. While a list stays
   * as it is the version alone is asked for, which costs the database less.
   */
  async #first(
    pages: OrderPages,
    request: ListRequest,
    knownVersions: readonly string[],
  ): Promise<OrderPage> {
    const kept = [this.#short?.version, this.#cachedVersion].filter((version) => version != null);
    const known = [...new Set([...knownVersions, ...kept])];
    if (this.#isSteady) {
      const version = await this.#readVersion(pages, request);
      if (known.includes(version)) return { version, json: new Uint8Array(), nextId: null };
    }
    const first = await pages.first(known);
    this.#isSteady = known.includes(first.version);
    return first;
  }

  #readVersion(pages: OrderPages, { waitUntil }: ListRequest): Promise<string> {
    return this.#version.read(() => pages.version(), waitUntil);
  }

  async #build(pages: OrderPages, first: OrderPage, request: ListRequest): Promise<OrderList> {
    const { version } = first;
    if (first.nextId === null) {
      this.#short = first;
      return whole(version, first.json);
    }
    const cached = this.#isBeingCached(version) ? null : await cachedOrderList(version);
    if (cached !== null) {
      this.#cachedVersion = version;
      return whole(version, cached);
    }
    const { onBroken, waitUntil } = request;
    const onEnd = (isOneVersion: boolean) => {
      if (isOneVersion && this.#isToBeCached(version)) waitUntil(this.#cache(pages, version));
    };
    return whole(version, orderListStream(pages, first, { onBroken, onEnd }));
  }

  #isBeingCached(version: string): boolean {
    return this.#offer.isOpen && this.#offer.version === version;
  }

  #isToBeCached(version: string): boolean {
    return this.#offer.version !== version || Date.now() - this.#offer.atMs >= CACHE_RETRY_MS;
  }

  /**
   * Reads the list once more, into the cache, after it was sent: so no caller waits for the cache,
   * and one who leaves does not break off what the next will use.
   */
  async #cache(pages: OrderPages, version: string): Promise<void> {
    const offer = { version, atMs: Date.now(), isOpen: true };
    this.#offer = offer;
    try {
      await scheduler.wait(0); // A local database shares our thread: the end of the list leaves first.
      const first = await pages.first();
      if (first.version !== version) return;
      const list = orderListStream(pages, first, { oneVersionOnly: true });
      if (!(await cacheOrderList(version, list))) return;
    } catch {
      return; // The list was sent; that it is not cached costs the next one time, nothing else.
    } finally {
      offer.isOpen = false;
    }
    const earlier = this.#cachedVersion;
    this.#cachedVersion = version;
    if (earlier !== null && earlier !== version) await dropCachedOrderList(earlier);
  }
}

function whole(version: string, body: NonNullable<OrderList["body"]>): OrderList {
  return { version, isKnown: false, body };
}
