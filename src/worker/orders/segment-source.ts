import type { DatabaseQueries } from "../db/availability.ts";
import type { Segment } from "./manifest.ts";
import type { SegmentCache } from "./segment-cache.ts";
import type { SegmentMemory } from "./segment-memory.ts";
import { readSegments, type SegmentTexts, type StatementSource } from "./segment-query.ts";
import type { Shorthand } from "./shorthand.ts";

/** The orders changed while a list was read, so the rest of it would be of another moment. */
export class ListMovedError extends Error {
  override readonly name = "ListMovedError";

  constructor() {
    super("The orders changed while the list was sent.");
  }
}

/** A local cache runs on the same thread, and the last bytes of the list are sent first. */
const AFTER_LIST_MS = 100;

type Group = readonly Segment[];

/**
 * The orders of the segments of one list: from memory, else from the cache, else from the database.
 *
 * Segments are read in groups, because the platform limits the cache calls and the queries of a
 * request. The groups are read ahead of the client, into memory or the cache: the longer a group
 * waits for a slow client, the more likely it has changed when it is read. What neither of them
 * keeps is read when its turn comes.
 */
export class SegmentSource {
  readonly #database: Pick<D1Database, "withSession">;
  readonly #queries: DatabaseQueries;
  readonly #memory: SegmentMemory;
  readonly #cache: SegmentCache;
  readonly #waitUntil: (promise: Promise<unknown>) => void;
  readonly #groups: readonly Group[];
  /** What was read with the manifest. */
  readonly #texts: Map<string, Shorthand>;
  readonly #fresh: Set<string>;
  /** The group that the client is at, and the one that is read ahead. */
  #taken = -1;
  #ahead = 0;
  /** The group that was read last from the database. */
  #latest: { readonly index: number; readonly shorthands: readonly Shorthand[] } | null = null;
  #failure: { readonly error: unknown } | null = null;
  #hasEnded = false;
  /** Groups that memory keeps, and the cache lacks. */
  readonly #uncached: Group[] = [];
  /** Groups that the cache lacked, one after the other. */
  #misses = 0;
  /** So many groups are read without asking the cache. */
  #unasked = 0;
  #changed = Promise.withResolvers<void>();
  #session: StatementSource | null = null;

  constructor(options: {
    readonly segments: readonly Segment[];
    readonly groupSegments: number;
    readonly database: Pick<D1Database, "withSession">;
    readonly queries: DatabaseQueries;
    readonly memory: SegmentMemory;
    readonly cache: SegmentCache;
    readonly waitUntil: (promise: Promise<unknown>) => void;
    /** What was read with the manifest. */
    readonly texts: SegmentTexts;
  }) {
    this.#database = options.database;
    this.#queries = options.queries;
    this.#memory = options.memory;
    this.#cache = options.cache;
    this.#waitUntil = options.waitUntil;
    this.#groups = groupsOf(options.segments, options.groupSegments);
    const { memory, texts } = options;
    this.#texts = new Map([...texts].filter(([version]) => memory.get(version) === undefined));
    this.#fresh = new Set(texts.keys());
  }

  /**
   * Yields the orders of each group of segments.
   *
   * @throws {ListMovedError} if a segment has another version by now.
   * @throws {DatabaseUnavailableError}
   */
  async *read(): AsyncGenerator<readonly Shorthand[], void> {
    void this.#readAhead();
    try {
      for (const [index, group] of this.#groups.entries()) {
        this.#set(() => (this.#taken = index));
        await this.#until(() => this.#ahead > index || this.#failure !== null);
        if (this.#failure !== null) throw this.#failure.error;
        yield await this.#take(index, group);
      }
    } finally {
      this.#set(() => (this.#hasEnded = true));
      if (this.#uncached.length > 0) this.#waitUntil(this.#fillCache());
    }
  }

  async #readAhead(): Promise<void> {
    try {
      for (const [index, group] of this.#groups.entries()) {
        if (this.#hasEnded) break;
        const shorthands = await this.#secure(group);
        this.#latest = shorthands && { index, shorthands };
        this.#set(() => (this.#ahead = index + 1));
        if (shorthands === null) continue;
        if (this.#isInMemory(group)) this.#uncached.push(group);
        else if (!(await this.#cache.put(group, shorthands))) {
          await this.#until(() => this.#taken > index || this.#hasEnded);
        }
      }
    } catch (error) {
      this.#set(() => (this.#failure = { error }));
    }
  }

  async #fillCache(): Promise<void> {
    await pause(AFTER_LIST_MS);
    for (const group of this.#uncached) {
      const shorthands = this.#find(group);
      if (isWhole(shorthands)) await this.#cache.put(group, shorthands);
    }
  }

  /** @returns the orders of a group of which the database gave any; `null` if it was kept already. */
  async #secure(group: Group): Promise<readonly Shorthand[] | null> {
    const found = this.#find(group);
    if (isWhole(found)) return group.some(({ version }) => this.#fresh.has(version)) ? found : null;
    if (await this.#isInCache(group)) return null;
    // A local D1 runs on the same thread: queued output is flushed first, and other requests continue.
    await pause();
    return this.#fromDatabase(group, found);
  }

  /** Asks a cache that lacks one group after the other ever more rarely. */
  async #isInCache(group: Group): Promise<boolean> {
    if (this.#unasked > 0) {
      this.#unasked -= 1;
      return false;
    }
    const isCached = await this.#cache.has(group);
    this.#misses = isCached ? 0 : this.#misses + 1;
    this.#unasked = Math.max(0, 2 ** (this.#misses - 1) - 1);
    return isCached;
  }

  async #take(index: number, group: Group): Promise<readonly Shorthand[]> {
    const latest = this.#latest?.index === index ? this.#latest.shorthands : null;
    this.#latest = null;
    const found = this.#find(group);
    for (const { version } of group) this.#texts.delete(version);
    if (latest !== null) return latest;
    if (isWhole(found)) return found;
    const cached = await this.#cache.get(group);
    if (cached?.length !== group.length) return this.#fromDatabase(group, found);
    for (const [place, shorthand] of cached.entries()) {
      this.#memory.add(group[place]?.version ?? "", shorthand);
    }
    return cached;
  }

  #find(group: Group): (Shorthand | undefined)[] {
    return group.map(({ version }) => this.#texts.get(version) ?? this.#memory.get(version));
  }

  #isInMemory(group: Group): boolean {
    return group.every(({ version }) => this.#memory.get(version) !== undefined);
  }

  /** Reads what `found` lacks. */
  async #fromDatabase(group: Group, found: readonly (Shorthand | undefined)[]) {
    // Begins at the primary, so that no replica is older than the manifest.
    const session = (this.#session ??= this.#database.withSession("first-primary"));
    const missing = group.filter((_, place) => found[place] === undefined);
    const stored = await this.#queries.run(() => readSegments(session, missing), {
      isRepeatable: true,
    });
    for (const [version, shorthand] of stored) this.#memory.add(version, shorthand);
    const shorthands = group.map(({ version }, place) => found[place] ?? stored.get(version));
    if (!isWhole(shorthands)) throw new ListMovedError();
    return shorthands;
  }

  #set(change: () => void): void {
    change();
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }

  async #until(isReached: () => boolean): Promise<void> {
    while (!isReached()) await this.#changed.promise;
  }
}

/** The first segment alone, for an early first byte. */
function groupsOf(segments: readonly Segment[], size: number): Group[] {
  const groups = [segments.slice(0, 1)];
  for (let start = 1; start < segments.length; start += size) {
    groups.push(segments.slice(start, start + size));
  }
  return groups;
}

function isWhole(found: (Shorthand | undefined)[]): found is Shorthand[] {
  return !found.includes(undefined);
}

function pause(milliseconds = 0): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, milliseconds));
}
