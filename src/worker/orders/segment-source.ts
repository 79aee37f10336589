import type { DatabaseQueries } from "../db/availability.ts";
import { pause } from "../deadline.ts";
import type { Segment } from "./manifest.ts";
import type { SegmentCache } from "./segment-cache.ts";
import type { SegmentMemory } from "./segment-memory.ts";
import { readSegments, type SegmentTexts, type StatementSource } from "./segment-query.ts";
import type { Shorthand } from "./shorthand.ts";

/**
 * Thrown if orders changed while a list was read, because the rest of the list would not be
 * consistent with the part already sent.
 */
export class ListMovedError extends Error {
  override readonly name = "ListMovedError";

  constructor() {
    super("The orders changed while the list was sent.");
  }
}

/**
 * The delay between the end of a list and writing its segments to the cache. A local cache runs on
 * the Worker's thread and would otherwise delay the last bytes of the list.
 */
const AFTER_LIST_MS = 100;

type Group = readonly Segment[];

/**
 * Reads the segments of one list. Each segment comes from memory if possible, otherwise from the
 * cache, otherwise from the database.
 *
 * Segments are read in groups, because Cloudflare limits the cache calls and queries of a request.
 * Groups are prefetched into memory or the cache, without waiting for a slow client. Otherwise
 * orders could change before their group is read. The drawback: prefetching is wasted if the client
 * disconnects. If neither memory nor the cache can store a group, prefetching waits until the
 * client has read that group.
 */
export class SegmentSource {
  readonly #database: Pick<D1Database, "withSession">;
  readonly #queries: DatabaseQueries;
  readonly #memory: SegmentMemory;
  readonly #cache: SegmentCache;
  readonly #waitUntil: (promise: Promise<unknown>) => void;
  readonly #groups: readonly Group[];
  /** The segments that were read with the manifest and are not in the isolate's segment memory. */
  readonly #texts: Map<string, Shorthand>;
  /** The versions of the segments that were read with the manifest. The cache may lack them. */
  readonly #freshVersions: ReadonlySet<string>;
  /**
   * The index of the group of segments that the client requested last; -1 if it has requested none.
   */
  #clientIndex = -1;
  /** The number of groups of segments that were prefetched. */
  #aheadCount = 0;
  /**
   * The group of segments that was prefetched last; `null` if memory or the cache already had it.
   */
  #lastRead: { readonly index: number; readonly shorthands: readonly Shorthand[] } | null = null;
  #failure: { readonly error: unknown } | null = null;
  #hasEnded = false;
  /** Groups of segments that are in memory and that the cache may lack. */
  readonly #uncached: Group[] = [];
  /** The number of consecutive groups of segments that the cache lacked. */
  #misses = 0;
  /** The number of groups of segments to read without calling the cache. */
  #skips = 0;
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
    /** The segments that were read with the manifest. */
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
    this.#freshVersions = new Set(texts.keys());
  }

  /**
   * Yields the orders of each group of segments.
   *
   * @throws {ListMovedError} if the version of a segment changed before the segment was read.
   * @throws {DatabaseUnavailableError} if the database does not respond.
   */
  async *read(): AsyncGenerator<readonly Shorthand[], void> {
    const readingAhead = this.#readAhead();
    try {
      for (const [index, group] of this.#groups.entries()) {
        this.#set(() => (this.#clientIndex = index));
        await this.#until(() => this.#aheadCount > index || this.#failure !== null);
        if (this.#failure !== null) throw this.#failure.error;
        yield await this.#take(index, group);
      }
    } finally {
      this.#set(() => (this.#hasEnded = true));
      // Keep the request alive until the last prefetched group of segments is in the cache.
      this.#waitUntil(readingAhead.then(() => this.#fillCache()));
    }
  }

  /** Prefetches all groups of segments. Never rejects: `read` throws the error instead. */
  async #readAhead(): Promise<void> {
    try {
      for (const [index, group] of this.#groups.entries()) {
        if (this.#hasEnded) break;
        const shorthands = await this.#readUnlessKept(index, group);
        this.#lastRead = shorthands && { index, shorthands };
        this.#set(() => (this.#aheadCount = index + 1));
        if (shorthands === null) continue;
        if (this.#isInMemory(group)) {
          this.#uncached.push(group);
        } else if (!this.#hasSpareCall(index) || !(await this.#cache.put(group, shorthands))) {
          await this.#until(() => this.#clientIndex > index || this.#hasEnded);
        }
      }
    } catch (error) {
      this.#set(() => (this.#failure = { error }));
    }
  }

  async #fillCache(): Promise<void> {
    if (this.#uncached.length === 0) return;
    await pause(AFTER_LIST_MS);
    for (const group of this.#uncached) {
      const shorthands = this.#find(group);
      if (isComplete(shorthands)) await this.#cache.put(group, shorthands);
    }
  }

  /**
   * Returns the orders of a group of segments if any of them were read from the database. Returns
   * `null` if memory or the cache already had the group.
   */
  async #readUnlessKept(index: number, group: Group): Promise<readonly Shorthand[] | null> {
    const found = this.#find(group);
    if (isComplete(found)) {
      return group.some(({ version }) => this.#freshVersions.has(version)) ? found : null;
    }
    if (this.#hasSpareCall(index) && (await this.#isInCache(group))) return null;
    // A local D1 runs on the Worker's thread. Yield first, so that queued output is flushed and
    // other requests continue.
    await pause(0);
    return this.#fromDatabase(group, found);
  }

  /**
   * Returns whether the cache has a group of segments. After consecutive misses, calls the cache
   * for ever fewer groups, and returns false for the others.
   */
  async #isInCache(group: Group): Promise<boolean> {
    if (this.#skips > 0) {
      this.#skips -= 1;
      return false;
    }
    const isCached = await this.#cache.has(group);
    this.#misses = isCached ? 0 : this.#misses + 1;
    this.#skips = Math.max(0, 2 ** (this.#misses - 1) - 1);
    return isCached;
  }

  /**
   * Returns whether prefetching this group of segments may call the cache. Enough calls must remain
   * for the groups from the client's position up to this one, because reading a cached group needs a
   * call.
   */
  #hasSpareCall(index: number): boolean {
    return this.#cache.callsLeft > index - this.#clientIndex + 1;
  }

  async #take(index: number, group: Group): Promise<readonly Shorthand[]> {
    const lastRead = this.#lastRead;
    const found = this.#find(group);
    for (const { version } of group) this.#texts.delete(version);
    if (lastRead?.index === index) {
      this.#lastRead = null;
      return lastRead.shorthands;
    }
    if (isComplete(found)) return found;
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

  /** Reads from the database the segments of a group that `found` lacks. */
  async #fromDatabase(
    group: Group,
    found: readonly (Shorthand | undefined)[],
  ): Promise<readonly Shorthand[]> {
    // The session begins at the primary database, because a read replica may be older than the
    // manifest.
    const session = (this.#session ??= this.#database.withSession("first-primary"));
    const missing = group.filter((_, place) => found[place] === undefined);
    const stored = await this.#queries.run(() => readSegments(session, missing), {
      isRepeatable: true,
    });
    for (const [version, shorthand] of stored) this.#memory.add(version, shorthand);
    const shorthands = group.map(({ version }, place) => found[place] ?? stored.get(version));
    if (!isComplete(shorthands)) throw new ListMovedError();
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

/**
 * Divides segments into groups. The first group has only one segment, so that the response begins
 * early.
 */
function groupsOf(segments: readonly Segment[], size: number): Group[] {
  const groups = [segments.slice(0, 1)];
  for (let start = 1; start < segments.length; start += size) {
    groups.push(segments.slice(start, start + size));
  }
  return groups;
}

function isComplete(found: (Shorthand | undefined)[]): found is Shorthand[] {
  return !found.includes(undefined);
}
