import QuickLRU from "quick-lru";
import type { DatabaseQueries } from "../db/availability.ts";
import { BatchedQuery } from "../db/batched-query.ts";
import { pause } from "../deadline.ts";
import type { FoundKey } from "./api-key.ts";
import { keysByHash } from "./key-by-hash.ts";

/** Shortest time between two attempts to refresh a remembered key. */
const RETRY_MS = 1_000;

/** Queries that run at once in an isolate. With more than one, a slow query does not delay all. */
const CONCURRENCY = 4;

/**
 * Pause before each query for suspects, so that they cause at most forty queries a second. A longer
 * pause answers more of them at once, which delays everyone else.
 */
const SUSPECTS_PAUSE_MS = 25;

type KeysByHash = ReadonlyMap<string, FoundKey>;

interface Entry {
  /** `null`: no key has this hash. */
  readonly key: FoundKey | null;
  /** The number of the query that read the key; a later query has a larger number. */
  readonly query: number;
  /** Unix time in milliseconds at which that query began. */
  readonly askedMs: number;
  /** Unix time in milliseconds of the last attempt to refresh the entry. */
  readonly triedMs: number;
}

/** The request that a key is looked up for. */
interface LookUp {
  /** Returns whether the client sent too many wrong secrets. Its look-ups use a slower queue. */
  readonly isSuspect: () => boolean;
  /** Keeps the isolate running until the promise settles, even after the answer. */
  readonly waitUntil: (promise: Promise<unknown>) => void;
}

/**
 * Finds API keys by the hash of a secret, in the isolate's memory first. An entry is used as it is
 * for `freshMs`, and then until `staleMs` while it is refreshed in the background. So requests with
 * a remembered key do not wait for the database, but a change may take effect `staleMs` later.
 */
export class ApiKeyDirectory {
  readonly #freshMs: number;
  readonly #staleMs: number;
  readonly #queries: DatabaseQueries;
  readonly #known: QuickLRU<string, Entry>;
  /** Separate, so that a flood of invented secrets cannot evict known keys. */
  readonly #unknown: QuickLRU<string, Entry>;
  readonly #lookUps: BatchedQuery<string, KeysByHash>;
  readonly #suspectLookUps: BatchedQuery<string, KeysByHash>;
  #queryCount = 0;

  constructor(options: {
    freshMs: number;
    staleMs: number;
    size: number;
    queries: DatabaseQueries;
  }) {
    const { freshMs, staleMs, size, queries } = options;
    const { database, timeoutMs } = queries;
    this.#freshMs = freshMs;
    this.#staleMs = staleMs;
    this.#queries = queries;
    this.#known = new QuickLRU({ maxSize: size });
    this.#unknown = new QuickLRU({ maxSize: size });
    this.#lookUps = new BatchedQuery({ database, concurrency: CONCURRENCY, timeoutMs });
    this.#suspectLookUps = new BatchedQuery({
      database,
      concurrency: 1,
      timeoutMs: SUSPECTS_PAUSE_MS + timeoutMs,
    });
  }

  /** Returns whether an earlier look-up of this hash is in memory, whatever it found. */
  remembers(hash: string): boolean {
    return this.#known.has(hash) || this.#unknown.has(hash);
  }

  /**
   * Finds a key by its current hash or by one from before a rotation, without looking at its state.
   *
   * @returns `null` if no key has this hash.
   * @throws {DatabaseUnavailableError}
   */
  find(
    database: D1Database,
    hash: string,
    lookUp: LookUp,
  ): Promise<FoundKey | null> | FoundKey | null {
    const nowMs = Date.now();
    const entry = this.#known.get(hash) ?? this.#unknown.get(hash);
    if (entry === undefined || !isWithin(entry, this.#staleMs, nowMs)) {
      return this.#lookUp(database, hash, lookUp, entry);
    }
    if (!isWithin(entry, this.#freshMs, nowMs) && nowMs - entry.triedMs >= RETRY_MS) {
      this.#store(hash, { ...entry, triedMs: nowMs });
      // A failed refresh matters only once the entry is stale: then the next `find` throws.
      this.#lookUp(database, hash, lookUp, entry).catch(() => undefined);
    }
    return entry.key;
  }

  async #lookUp(
    database: D1Database,
    hash: string,
    { isSuspect, waitUntil }: LookUp,
    entry: Entry | undefined,
  ): Promise<FoundKey | null> {
    const isKnown = entry !== undefined && entry.key !== null;
    const keys =
      !isKnown && isSuspect()
        ? await this.#suspectLookUps.read(
            hash,
            (hashes) => pause(SUSPECTS_PAUSE_MS).then(() => this.#query(database, hashes)),
            waitUntil,
          )
        : await this.#lookUps.read(hash, (hashes) => this.#query(database, hashes), waitUntil);
    return keys.get(hash) ?? null;
  }

  /** Queries may overtake each other. An earlier query never replaces the result of a later one. */
  async #query(database: D1Database, hashes: readonly string[]): Promise<KeysByHash> {
    this.#queryCount += 1;
    const query = this.#queryCount;
    const askedMs = Date.now();
    const keys = await this.#queries.run(() => keysByHash(database, hashes));
    for (const hash of hashes) {
      const stored = this.#known.peek(hash) ?? this.#unknown.peek(hash);
      if (stored !== undefined && stored.query > query) continue;
      this.#store(hash, { key: keys.get(hash) ?? null, query, askedMs, triedMs: askedMs });
    }
    return keys;
  }

  #store(hash: string, entry: Entry): void {
    const [place, other] =
      entry.key === null ? [this.#unknown, this.#known] : [this.#known, this.#unknown];
    other.delete(hash);
    place.set(hash, entry);
  }
}

function isWithin({ askedMs }: Entry, ageMs: number, nowMs: number): boolean {
  return nowMs >= askedMs && nowMs - askedMs < ageMs;
}
