import QuickLRU from "quick-lru";
import { queryDatabase } from "../db/availability.ts";
import type { FoundKey } from "./api-key.ts";
import { keyByHash } from "./key-by-hash.ts";

/** Between two tries to look a remembered key up again. */
const RETRY_MS = 1_000;

interface Entry {
  /** `null`: no key has this hash. */
  readonly apiKey: FoundKey | null;
  /** Unix time in milliseconds at which the database was asked. */
  readonly askedMs: number;
  /** Unix time in milliseconds at which it was last tried to ask again. */
  triedMs: number;
}

/**
 * Finds API keys by their hash, in the isolate's memory first. What is remembered there is used for
 * `freshMs` as it is, then up to `staleMs` while it is looked up again; so no request with a known
 * key waits for the database, and a change takes effect within `staleMs` (contract, section 3).
 */
export class ApiKeyDirectory {
  readonly #freshMs: number;
  readonly #staleMs: number;
  readonly #timeoutMs: number;
  readonly #known: QuickLRU<string, Entry>;
  /** Apart from the known ones, which a flood of invented keys must not push out. */
  readonly #unknown: QuickLRU<string, Entry>;

  constructor(options: { freshMs: number; staleMs: number; size: number; timeoutMs: number }) {
    this.#freshMs = options.freshMs;
    this.#staleMs = options.staleMs;
    this.#timeoutMs = options.timeoutMs;
    this.#known = new QuickLRU({ maxSize: options.size });
    this.#unknown = new QuickLRU({ maxSize: options.size });
  }

  /** Whether a key with this hash has been asked for lately. */
  remembers(hash: string): boolean {
    return this.#known.has(hash) || this.#unknown.has(hash);
  }

  /**
   * @param waitUntil keeps the isolate at work after the answer.
   * @returns the key's record, whatever its state, also where it had this hash before a rotation;
   *   `null` where no key has it.
   * @throws {DatabaseUnavailableError}
   */
  find(
    database: D1Database,
    hash: string,
    waitUntil: (promise: Promise<unknown>) => void,
  ): Promise<FoundKey | null> | FoundKey | null {
    const nowMs = Date.now();
    const entry = this.#known.get(hash) ?? this.#unknown.get(hash);
    if (entry === undefined || !isWithin(entry, this.#staleMs, nowMs)) {
      return this.#lookUp(database, hash);
    }
    const isDue = !isWithin(entry, this.#freshMs, nowMs) && nowMs - entry.triedMs >= RETRY_MS;
    if (isDue) {
      entry.triedMs = nowMs;
      // A database that does not answer is met by the request that can no longer do without it.
      waitUntil(this.#lookUp(database, hash).catch(() => undefined));
    }
    return entry.apiKey;
  }

  async #lookUp(database: D1Database, hash: string): Promise<FoundKey | null> {
    const askedMs = Date.now();
    const apiKey = await this.#ask(database, hash);
    const entry = { apiKey, askedMs, triedMs: askedMs };
    if (apiKey === null) this.#known.delete(hash);
    (apiKey === null ? this.#unknown : this.#known).set(hash, entry);
    return apiKey;
  }

  async #ask(database: D1Database, hash: string): Promise<FoundKey | null> {
    const query = keyByHash(database);
    return queryDatabase(this.#timeoutMs, async () => (await query.get({ hash })) ?? null);
  }
}

function isWithin({ askedMs }: Entry, ageMs: number, nowMs: number): boolean {
  return nowMs >= askedMs && nowMs - askedMs < ageMs;
}
