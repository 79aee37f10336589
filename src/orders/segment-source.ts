import type { DatabaseQueries } from "../db/availability.ts";
import type { Segment } from "./manifest.ts";
import type { SegmentCache } from "./segment-cache.ts";
import type { SegmentMemory } from "./segment-memory.ts";
import { readSegments, type SegmentTexts, type StatementSource } from "./segment-query.ts";
import type { Shorthand } from "./shorthand.ts";

/** The orders changed while a list was sent, so the rest of it would be of another moment. */
export class ListMovedError extends Error {
  override readonly name = "ListMovedError";

  constructor() {
    super("The orders changed while the list was sent.");
  }
}

/** The orders of segments for one list: from memory, else from the cache, else from the database. */
export class SegmentSource {
  readonly #database: Pick<D1Database, "withSession">;
  readonly #queries: DatabaseQueries;
  readonly #memory: SegmentMemory;
  readonly #cache: SegmentCache;
  /** Read with the manifest, but not kept in memory. */
  readonly #read: Map<string, Shorthand>;
  #session: StatementSource | null = null;

  constructor(options: {
    readonly database: Pick<D1Database, "withSession">;
    readonly queries: DatabaseQueries;
    readonly memory: SegmentMemory;
    readonly cache: SegmentCache;
    /** What was read with the manifest. */
    readonly texts: SegmentTexts;
  }) {
    this.#database = options.database;
    this.#queries = options.queries;
    this.#memory = options.memory;
    this.#cache = options.cache;
    const { memory, texts } = options;
    this.#read = new Map([...texts].filter(([version]) => memory.get(version) === undefined));
  }

  /**
   * Returns the orders of these segments, in the same order.
   *
   * @throws {ListMovedError} if one of the segments has another version by now.
   * @throws {DatabaseUnavailableError}
   */
  async read(segments: readonly Segment[]): Promise<Shorthand[]> {
    const found = segments.map(({ version }) => this.#take(version));
    if (found.includes(undefined)) await this.#find(segments, found);
    return found.map((shorthand) => {
      if (shorthand === undefined) throw new ListMovedError();
      return shorthand;
    });
  }

  #take(version: string): Shorthand | undefined {
    const read = this.#read.get(version);
    this.#read.delete(version);
    return read ?? this.#memory.get(version);
  }

  /** Fills the gaps of `found`, as far as the cache and the database have the segments. */
  async #find(segments: readonly Segment[], found: (Shorthand | undefined)[]): Promise<void> {
    const fill = (get: (segment: Segment) => Shorthand | undefined) => {
      for (const [index, segment] of segments.entries()) {
        if (found[index] !== undefined) continue;
        found[index] = get(segment);
        if (found[index] !== undefined) this.#memory.add(segment.version, found[index]);
      }
      return segments.filter((_, index) => found[index] === undefined);
    };
    const missing = segments.filter((_, index) => found[index] === undefined);
    const cached = await this.#fromCache(missing);
    const uncached = fill(({ version }) => cached.get(version));
    if (uncached.length === 0) return;
    const stored = await this.#fromDatabase(uncached);
    fill(({ version }) => stored.get(version));
    for (const [version, shorthand] of stored) this.#cache.put(version, shorthand);
  }

  async #fromCache(segments: readonly Segment[]): Promise<Map<string, Shorthand>> {
    const cached = new Map<string, Shorthand>();
    const get = async ({ version }: Segment) => {
      const shorthand = await this.#cache.get(version);
      if (shorthand !== undefined) cached.set(version, shorthand);
    };
    await Promise.all(segments.map(get));
    return cached;
  }

  #fromDatabase(segments: readonly Segment[]): Promise<SegmentTexts> {
    // Begins at the primary, so that no replica is older than the manifest.
    const session = (this.#session ??= this.#database.withSession("first-primary"));
    return this.#queries.run(() => readSegments(session, segments), {
      isRepeatable: true,
    });
  }
}
