import QuickLRU from "quick-lru";
import type { DatabaseQueries } from "../db/availability.ts";
import { BatchedCalls } from "../batched-calls.ts";
import { isWithin, pause } from "../deadline.ts";
import { type FoundKey, keysByHash } from "./key-by-hash.ts";

/** The shortest time between two attempts to refresh a remembered key, in milliseconds. */
const RETRY_MS = 1_000;

/** How many queries may run at once. With only one, a slow query would delay all requests. */
const CONCURRENCY = 4;

/**
 * The pause before each query for suspects: clients that failed to authenticate too often. Limits
 * an isolate to 40 of these queries a second. With a longer pause, more requests resume at once.
 */
const SUSPECTS_PAUSE_MS = 25;

/** An isolate uses a remembered key until this age without looking it up again. */
const FRESH_MS = 10_000;

/**
 * An isolate uses a remembered key until this age while it looks the key up again in the background.
 * So a revocation takes effect within the promised 30 seconds (docs/api.md, Authentication).
 */
const STALE_MS = 25_000;

interface Entry {
  /** `null` if no key has this hash. */
  readonly key: FoundKey | null;
  /** The number of the query that read this entry. Later queries have larger numbers. */
  readonly query: number;
  /** Unix time in milliseconds at which the query that read this entry began. */
  readonly askedMs: number;
  /** Unix time in milliseconds of the last attempt to refresh this entry. */
  readonly triedMs: number;
}

/** The request for which a key is looked up. */
interface LookUp {
  /** Returns whether to delay unknown hashes: the client failed to authenticate too often. */
  readonly isSuspect: () => boolean;
  /** Keeps the request alive until the promise settles, even after the response was sent. */
  readonly waitUntil: (promise: Promise<unknown>) => void;
}

/**
 * Finds API keys by the hash of a secret, first in the isolate's memory, then in the database.
 * Requests with a remembered key do not wait for the database, but a change of a key may take effect
 * up to `STALE_MS` late.
 */
export class ApiKeyDirectory {
  readonly #queries: DatabaseQueries;
  readonly #known: QuickLRU<string, Entry>;
  /** Hashes that no key has. Separate, so that a flood of invented secrets evicts no known key. */
  readonly #unknown: QuickLRU<string, Entry>;
  readonly #lookUps: BatchedCalls<string, FoundKey | null>;
  readonly #suspectLookUps: BatchedCalls<string, FoundKey | null>;
  #queryCount = 0;

  /** @param size the minimum capacity of each cache, for known and unknown hashes, in entries. */
  constructor(queries: DatabaseQueries, size: number) {
    const { timeoutMs, unavailable: late } = queries;
    this.#queries = queries;
    this.#known = new QuickLRU({ maxSize: size });
    this.#unknown = new QuickLRU({ maxSize: size });
    this.#lookUps = new BatchedCalls({ concurrency: CONCURRENCY, timeoutMs, late });
    const suspectTimeoutMs = SUSPECTS_PAUSE_MS + timeoutMs;
    this.#suspectLookUps = new BatchedCalls({ concurrency: 1, timeoutMs: suspectTimeoutMs, late });
  }

  /** Returns whether the result of an earlier look-up is remembered, even if no key was found. */
  remembers(hash: string): boolean {
    return this.#known.has(hash) || this.#unknown.has(hash);
  }

  /** Returns the remembered key with this hash, of whatever age, without a look-up. */
  recall(hash: string): FoundKey | null {
    return this.#known.peek(hash)?.key ?? null;
  }

  /**
   * Finds a key by its current hash or by a hash from before a rotation. Also returns expired and
   * revoked keys. Returns `null` if no key has the hash.
   *
   * @throws {DatabaseUnavailableError} if a query is necessary and the database does not respond.
   */
  find(
    database: D1Database,
    hash: string,
    lookUp: LookUp,
  ): Promise<FoundKey | null> | FoundKey | null {
    const nowMs = Date.now();
    const entry = this.#known.get(hash) ?? this.#unknown.get(hash);
    if (entry === undefined || !isWithin(STALE_MS, entry.askedMs, nowMs)) {
      return this.#lookUp(database, hash, lookUp, entry);
    }
    if (!isWithin(FRESH_MS, entry.askedMs, nowMs) && nowMs - entry.triedMs >= RETRY_MS) {
      this.#store(hash, { ...entry, triedMs: nowMs });
      // Ignore a failed refresh, because the entry can still be used.
      this.#lookUp(database, hash, lookUp, entry).catch(() => undefined);
    }
    return entry.key;
  }

  #lookUp(
    database: D1Database,
    hash: string,
    { isSuspect, waitUntil }: LookUp,
    entry: Entry | undefined,
  ): Promise<FoundKey | null> {
    const query = (hashes: readonly string[]) => this.#query(database, hashes);
    const queryLater = (hashes: readonly string[]) =>
      pause(SUSPECTS_PAUSE_MS).then(() => query(hashes));
    const isKnown = entry !== undefined && entry.key !== null;
    return !isKnown && isSuspect()
      ? this.#suspectLookUps.valueOf(hash, queryLater, waitUntil)
      : this.#lookUps.valueOf(hash, query, waitUntil);
  }

  /** Queries the database and remembers the results, unless memory has newer results. */
  async #query(
    database: D1Database,
    hashes: readonly string[],
  ): Promise<readonly (FoundKey | null)[]> {
    this.#queryCount += 1;
    const query = this.#queryCount;
    const askedMs = Date.now();
    const keys = await this.#queries.run(() => keysByHash(database, hashes), { isRead: true });
    for (const hash of hashes) {
      const stored = this.#known.peek(hash) ?? this.#unknown.peek(hash);
      if (stored !== undefined && stored.query > query) continue;
      this.#store(hash, { key: keys.get(hash) ?? null, query, askedMs, triedMs: askedMs });
    }
    return hashes.map((hash) => keys.get(hash) ?? null);
  }

  #store(hash: string, entry: Entry): void {
    const [place, other] =
      entry.key === null ? [this.#unknown, this.#known] : [this.#known, this.#unknown];
    other.delete(hash);
    place.set(hash, entry);
  }
}
