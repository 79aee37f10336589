import type { DatabaseQueries } from "../db/availability.ts";
import { BatchedQuery } from "../db/batched-query.ts";
import { ApiError } from "../errors.ts";
import { LIST_SIZES, type ListSizes } from "./list-sizes.ts";
import { listStream, listText, StalledReaderError } from "./list-stream.ts";
import { ListsUnderWay } from "./lists-under-way.ts";
import type { Manifest, Segment } from "./manifest.ts";
import type { OrderExpander } from "./order-expander.ts";
import { type CacheStore, openSegmentCache, SegmentCache } from "./segment-cache.ts";
import { SegmentMemory } from "./segment-memory.ts";
import type { Shorthand } from "./shorthand.ts";
import { readSnapshot, type SegmentTexts, type Snapshot } from "./segment-query.ts";
import { ListMovedError, SegmentSource } from "./segment-source.ts";

/** The length in bytes of an ordinary order in shorthand. The order's JSON is twice as long. */
const ORDER_BYTES = 48;

/** Log events that an operator may have to look into. */
export type ListEvent =
  /** The list was cut off because orders changed while it was sent. */
  | "order_list_moved"
  /** The list was cut off because the client read nothing of it for too long. */
  | "order_list_stalled"
  /** The list was cut off for another reason. */
  | "order_list_broken"
  /** The list was refused because lists that are being sent use the memory for lists. */
  | "order_lists_too_many"
  /** The list was refused because the store has too many orders. */
  | "order_list_too_long";

export interface ListRequest {
  readonly database: D1Database;
  /** The list versions that the HTTP client already has; `"*"` matches any version. */
  readonly knownVersions: readonly string[] | "*";
  /** True for a HEAD request, which needs only the version of the list. */
  readonly isHead: boolean;
  readonly log: (event: ListEvent, error?: unknown) => void;
  readonly waitUntil: (promise: Promise<unknown>) => void;
}

/** The list of orders at one version. */
interface OrderList {
  readonly version: string;
  /** True if the HTTP client already has this version of the list. */
  readonly isKnown: boolean;
  /**
   * The list as a JSON array; `null` if the HTTP client already has this version or sent a HEAD
   * request.
   */
  readonly body: Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> | "[]" | null;
}

/**
 * Reads the list of orders. If the client or the isolate already has the current version of the
 * list, a request reads one database row. Otherwise, one query reads the manifest and the segments
 * that are missing in memory. The drawback: a list of more than about 130,000 orders that is not in
 * memory takes several queries. The response is cut off if orders change between these queries.
 *
 * Memory and cache identify segments by version. Triggers in the database set these versions (see
 * `Segment`). So an outdated segment is never used, and a segment that is lost from memory or cache
 * is read from the database again.
 */
export class OrderLists {
  readonly #queries: DatabaseQueries;
  readonly #expander: OrderExpander;
  readonly #openCache: () => Promise<CacheStore>;
  readonly #sizes: ListSizes;
  readonly #snapshots: BatchedQuery<readonly string[] | null, Snapshot>;
  readonly #underWay: ListsUnderWay;
  readonly #memory: SegmentMemory;
  /** The latest short list, which most requests list again. */
  #latestShortList: {
    readonly shorthand: Shorthand;
    readonly json: Uint8Array<ArrayBuffer>;
  } | null = null;
  #manifest: Manifest | null = null;

  constructor(
    queries: DatabaseQueries,
    expander: OrderExpander,
    {
      openCache = openSegmentCache,
      memory = new SegmentMemory(),
      sizes = {},
    }: {
      readonly openCache?: () => Promise<CacheStore>;
      readonly memory?: SegmentMemory;
      readonly sizes?: Partial<ListSizes>;
    } = {},
  ) {
    this.#queries = queries;
    this.#expander = expander;
    this.#openCache = openCache;
    this.#memory = memory;
    this.#sizes = { ...LIST_SIZES, ...sizes };
    this.#snapshots = new BatchedQuery({
      late: queries.unavailable,
      concurrency: this.#sizes.concurrency,
      timeoutMs: queries.timeoutMs,
    });
    this.#underWay = new ListsUnderWay(this.#sizes.underWayBytes, this.#sizes.stallMs);
  }

  /**
   * Reads the list's version and, if the request needs the list, its manifest and missing segments.
   *
   * @throws {DatabaseUnavailableError} if the database does not respond.
   */
  read(request: ListRequest): Promise<Snapshot> {
    const { knownVersions, isHead, waitUntil } = request;
    const known = isHead || knownVersions === "*" ? null : knownVersions;
    return this.#snapshots.read(known, (keys) => this.#query(request, keys), waitUntil);
  }

  /**
   * Returns the list for the response to this request.
   *
   * @throws {ApiError} if the list is too long or too many lists are being sent.
   */
  answer({ version, manifest, texts }: Snapshot, request: ListRequest): OrderList {
    const { knownVersions, isHead } = request;
    const isKnown = knownVersions === "*" || knownVersions.includes(version);
    if (isKnown || isHead) return { version, isKnown, body: null };
    if (manifest === null) throw new Error("The manifest of a needed list was not read.");
    return { version, isKnown, body: this.#body(manifest, texts, request) };
  }

  async #query(
    request: ListRequest,
    keys: readonly (readonly string[] | null)[],
  ): Promise<Snapshot> {
    const held = this.#manifest;
    const versions = held?.segments.map((segment) => segment.version) ?? [];
    // Omit segments of earlier manifests, to keep the list of segment versions in the query short.
    const inMemory = versions.filter((version) => this.#memory.get(version) !== undefined);
    // If memory lacks the first segment, do not use the manifest in memory: the query then reads
    // that segment too, and the response begins after one round trip.
    const usable = inMemory[0] === versions[0] ? held : null;
    const needs = {
      listVersions: versionsThatSuffice(keys, usable),
      segmentVersions: JSON.stringify(inMemory),
      maxMissing: this.#sizes.missingWithManifest,
    };
    const { database } = request;
    const read = () => readSnapshot(database, needs);
    const { version, manifest, texts } = await this.#queries.run(read, { isRead: true });
    if (manifest !== null) this.#keep(manifest, texts);
    return { version, manifest: manifest ?? (held?.version === version ? held : null), texts };
  }

  #keep(manifest: Manifest, texts: SegmentTexts): void {
    this.#manifest = manifest;
    this.#memory.renew(manifest);
    for (const [version, shorthand] of texts) this.#memory.add(version, shorthand);
  }

  #body(
    { segments }: Manifest,
    texts: SegmentTexts,
    request: ListRequest,
  ): NonNullable<OrderList["body"]> {
    const { maxSegments, groupSegments, cacheCalls, sliceBytes, stallMs } = this.#sizes;
    const [first] = segments;
    if (segments.length === 1 && first !== undefined) {
      const shorthand = texts.get(first.version) ?? this.#memory.get(first.version);
      if (shorthand !== undefined && shorthand.length <= sliceBytes) {
        return this.#shortList(shorthand);
      }
    }
    if (segments.length > maxSegments) throw refusal(request, "order_list_too_long");
    const reservation = this.#underWay.reserve(this.#bytesToHold(segments));
    if (reservation === null) throw refusal(request, "order_lists_too_many");
    const source = new SegmentSource({
      segments,
      groupSegments,
      database: request.database,
      queries: this.#queries,
      memory: this.#memory,
      cache: new SegmentCache(this.#openCache, cacheCalls),
      waitUntil: request.waitUntil,
      texts,
    });
    return listStream(listText(source.read(), this.#expander, sliceBytes), {
      stallMs,
      onProgress: () => reservation.progressed(),
      onEnd(error) {
        reservation.release();
        if (error !== undefined) request.log(eventOf(error), error);
      },
    });
  }

  /**
   * Estimates the memory in bytes that a list needs while it is sent: one piece of JSON, which is
   * twice as long as its shorthand. If the segments do not all fit into the isolate's segment
   * memory, the list also needs memory for three groups of segments.
   */
  #bytesToHold(segments: readonly Segment[]): number {
    const { groupSegments, sliceBytes } = this.#sizes;
    const counts = segments.map(({ count }) => count);
    const orders = counts.reduce((sum, count) => sum + count, 0);
    if (this.#memory.holds(orders * ORDER_BYTES)) return 2 * sliceBytes;
    return 2 * sliceBytes + 3 * groupSegments * Math.max(...counts) * ORDER_BYTES;
  }

  #shortList(shorthand: Shorthand): Uint8Array<ArrayBuffer> | "[]" {
    if (shorthand.length === 0) return "[]";
    if (this.#latestShortList?.shorthand !== shorthand) {
      const ends = { opening: "[", closing: "]" } as const;
      const json = this.#expander.expand(shorthand, 0, shorthand.length, ends);
      this.#latestShortList = { shorthand, json };
    }
    return this.#latestShortList.json;
  }
}

/**
 * Returns the list versions for which the snapshot query can omit the manifest: the versions that
 * the clients of all waiting requests have, and the version of the manifest in memory. Returns
 * `null` if no request needs the list.
 */
function versionsThatSuffice(
  requests: readonly (readonly string[] | null)[],
  held: Manifest | null,
): readonly string[] | null {
  const listRequests = requests.filter((known) => known !== null);
  if (listRequests.length === 0) return null;
  const [first = [], ...others] = listRequests.map((known) => new Set(known));
  const common = [...first].filter((version) => others.every((known) => known.has(version)));
  return held === null ? common : [...common, held.version];
}

function eventOf(error: unknown): ListEvent {
  if (error instanceof ListMovedError) return "order_list_moved";
  if (error instanceof StalledReaderError) return "order_list_stalled";
  return "order_list_broken";
}

const REFUSALS = {
  order_lists_too_many: {
    message:
      "The service is sending too many long lists at the moment. Repeat the request after the time in Retry-After.",
    retryAfter: "5",
  },
  order_list_too_long: {
    message:
      "The store has more orders than the service can list in one answer. Tell the operator of the service; repeating the request helps only once there are fewer orders.",
    retryAfter: "3600",
  },
} as const;

function refusal(request: ListRequest, event: keyof typeof REFUSALS): ApiError {
  const { message, retryAfter } = REFUSALS[event];
  request.log(event);
  return new ApiError("service_unavailable", message, { "Retry-After": retryAfter });
}
