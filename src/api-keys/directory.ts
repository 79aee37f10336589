import { eq, sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import QuickLRU from "quick-lru";
import { DatabaseUnavailableError, queryDatabase } from "../db/availability.ts";
import { apiKeys } from "../db/schema.ts";
import type { ApiKey } from "./api-key.ts";

interface Entry {
  /** `null`: no key has this hash. */
  readonly apiKey: ApiKey | null;
  /** Unix time in milliseconds at which the database was asked. */
  readonly askedMs: number;
}

/**
 * Finds API keys by their hash, in the isolate's memory first. What it remembers it uses for
 * `freshMs` without asking, and up to `staleMs` where the database does not answer, so that a change
 * takes effect within that time (contract, section 3).
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

  /**
   * @returns the key's record, whatever its state, or `null` where no key has this hash.
   * @throws {DatabaseUnavailableError}
   */
  async find(database: D1Database, hash: string): Promise<ApiKey | null> {
    const askedMs = Date.now();
    const entry = this.#known.get(hash) ?? this.#unknown.get(hash);
    if (entry !== undefined && isWithin(entry, this.#freshMs, askedMs)) return entry.apiKey;
    try {
      const apiKey = await this.#ask(database, hash);
      if (apiKey === null) {
        this.#known.delete(hash);
        this.#unknown.set(hash, { apiKey, askedMs });
      } else {
        this.#known.set(hash, { apiKey, askedMs });
      }
      return apiKey;
    } catch (error) {
      const isUsable = entry?.apiKey != null && isWithin(entry, this.#staleMs, Date.now());
      if (error instanceof DatabaseUnavailableError && isUsable) return entry.apiKey;
      throw error;
    }
  }

  async #ask(database: D1Database, hash: string): Promise<ApiKey | null> {
    const query = drizzle(database)
      .select()
      .from(apiKeys)
      .where(eq(apiKeys.hash, sql.placeholder("hash")))
      .prepare();
    return queryDatabase(this.#timeoutMs, async () => (await query.get({ hash })) ?? null);
  }
}

function isWithin({ askedMs }: Entry, ageMs: number, nowMs: number): boolean {
  return nowMs >= askedMs && nowMs - askedMs < ageMs;
}
