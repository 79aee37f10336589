import type { Config } from "../../rules/config.ts";
import type { DatabaseQueries } from "../db/availability.ts";
import { BatchedCalls } from "../batched-calls.ts";
import { pause } from "../deadline.ts";
import { ApiError } from "../errors.ts";
import { allowsMatch, knownTags, type Preconditions } from "../preconditions.ts";
import {
  ListDatabase,
  type Manifest,
  type Segment,
  type SegmentTexts,
  type Snapshot,
} from "./list-database.ts";
import {
  LIST_SIZES,
  ListPlaces,
  type ListSizes,
  ListUnderWay,
  type OrderExpander,
  StalledReaderError,
} from "./list-stream.ts";

class ListMovedError extends Error {}

/** Log events (docs/operating.md, The log): three for a list that is cut off, the others for a 503. */
export type ListEvent =
  | "order_list_moved"
  | "order_list_stalled"
  | "order_list_broken"
  | keyof typeof REFUSALS;

export interface ListRequest {
  readonly database: D1Database;
  readonly keyId: string;
  readonly preconditions: Preconditions;
  readonly isHead: boolean;
  /**
   * Resolves if the request is admitted, or with `null` if it is refused. The list must come from
   * the primary database unless `mayReadReplica` is true.
   */
  readonly admission: Promise<{ readonly mayReadReplica?: boolean } | null>;
  readonly log: (event: ListEvent, error?: unknown) => void;
  readonly waitUntil: (promise: Promise<unknown>) => void;
}

interface RequestNeeds {
  readonly knownVersions: readonly string[] | "*";
  readonly mayReadReplica: boolean;
}

interface OrderList extends Pick<Snapshot, "version"> {
  /** The database that served the list, if lists may come from a replica. */
  readonly servedBy: Snapshot["servedBy"] | null;
  /** Whether the HTTP client already has this version. */
  readonly isKnown: boolean;
  /** The list as a JSON array; `null` if it is known, or if only the headers were requested. */
  readonly body: Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> | "[]" | null;
}

/**
 * Reads the list of orders. If the client or the isolate already has the current version of the
 * list, a request reads one database row. Otherwise, one query reads the manifest and the missing
 * segments. If memory lacks more than about 130,000 orders, further queries read them as they were
 * when the manifest was read. So changes meanwhile do not affect the list.
 */
export class OrderLists {
  readonly #database: ListDatabase;
  readonly #expander: OrderExpander;
  readonly #sizes: ListSizes;
  readonly #snapshots: BatchedCalls<RequestNeeds, Snapshot>;
  readonly #places: ListPlaces;
  readonly #memory: SegmentMemory;
  /** The latest short list, kept because most requests ask for the same list again. */
  #latestShortList: { readonly text: string; readonly json: Uint8Array<ArrayBuffer> } | null = null;

  constructor(
    queries: DatabaseQueries,
    expander: OrderExpander,
    options: {
      readonly sizes?: Partial<ListSizes>;
      readonly memoryBytes?: number;
      readonly places?: ListPlaces;
      readonly listReads?: Config["listReads"];
    } = {},
  ) {
    this.#sizes = { ...LIST_SIZES, ...options.sizes };
    this.#database = new ListDatabase(queries, options.listReads === "nearest");
    this.#expander = expander;
    this.#memory = new SegmentMemory(options.memoryBytes ?? MEMORY_BYTES);
    this.#places = options.places ?? new ListPlaces(this.#sizes);
    const { timeoutMs } = this.#database;
    const { concurrency } = this.#sizes;
    this.#snapshots = new BatchedCalls({ concurrency, timeoutMs, late: queries.unavailable });
  }

  /**
   * Answers a request for the list; `null` if the request is not admitted.
   *
   * @throws {DatabaseUnavailableError} if the database does not respond.
   * @throws {ApiError} if a precondition is false, the list is too long or too many lists are sent.
   */
  async answer(request: ListRequest): Promise<OrderList | null> {
    const early = this.#snapshot(request, true);
    early.catch(() => undefined); // If the request is admitted, this error is thrown below.
    const admission = await request.admission;
    if (admission === null) return null;
    let snapshot = await early;
    if (!snapshot.servedBy.isPrimary && admission.mayReadReplica !== true) {
      snapshot = await this.#snapshot(request, false);
    }
    const { version } = snapshot;
    if (!allowsMatch(request.preconditions, version)) {
      throw new ApiError(
        "precondition_failed",
        "The list has another entity tag than If-Match requires. Repeat the request without If-Match.",
      );
    }
    const known = knownTags(request.preconditions);
    const isKnown = known === "*" || known.includes(version);
    const body = isKnown ? null : this.#body(snapshot, request);
    return {
      version,
      servedBy: this.#database.isNearest ? snapshot.servedBy : null,
      isKnown,
      body,
    };
  }

  #snapshot({ preconditions, database, waitUntil }: ListRequest, mayReadReplica: boolean) {
    const needs = { knownVersions: knownTags(preconditions), mayReadReplica };
    const call = async (requests: readonly RequestNeeds[]) => {
      const snapshot = await this.#query(database, requests);
      return requests.map(() => snapshot);
    };
    return this.#snapshots.valueOf(needs, call, waitUntil);
  }

  async #query(database: D1Database, requests: readonly RequestNeeds[]): Promise<Snapshot> {
    const held = this.#memory.manifest;
    const segmentVersions = this.#memory.versions;
    const listRequests = requests
      .map(({ knownVersions }) => knownVersions)
      .filter((versions) => versions !== "*");
    // If memory lacks the first segment, do not use the manifest in memory. The query then reads
    // that segment too, and the response begins after one round trip.
    const canReuseHeld = held !== null && segmentVersions[0] === held.segments[0]?.version;
    const snapshot = await this.#database.snapshot(database, {
      needsManifest: listRequests.length > 0,
      knownVersions: [...commonVersions(listRequests), ...(canReuseHeld ? [held.version] : [])],
      segmentVersions,
      maxMissing: this.#sizes.missingWithManifest,
      mayReadReplica: requests.every((request) => request.mayReadReplica),
    });
    const { version, sequence, manifest, texts, servedBy } = snapshot;
    if (manifest === null) {
      // No request needs the manifest, or the list's version is known. If memory has this version,
      // only the sequence number may be outdated: an insertion that changes nothing advances it.
      return held?.version === version
        ? { ...snapshot, manifest: { ...held, sequence } }
        : snapshot;
    }
    // Keep the newest manifest, because queries can return out of order and replicas lag. Exception:
    // if memory has not changed meanwhile, an older manifest from the primary means a restore.
    const newest = this.#memory.manifest;
    const isRestored = servedBy.isPrimary && newest === held;
    if (isRestored || newest === null || manifest.sequence > newest.sequence) {
      this.#memory.setManifest(manifest);
    }
    for (const [segment, text] of texts) this.#memory.add(segment, text);
    return snapshot;
  }

  #body({ manifest, texts }: Snapshot, request: ListRequest): OrderList["body"] {
    if (manifest === null) throw new Error("The manifest of a needed list was not read.");
    const { segments } = manifest;
    const { maxSegments, shortBytes, leaseMs } = this.#sizes;
    const [first] = segments;
    if (segments.length === 1 && first !== undefined) {
      const text = texts.get(first.version) ?? this.#memory.get(first.version);
      if (text !== undefined && text.length <= shortBytes) {
        return request.isHead ? null : this.#shortList(text);
      }
    }
    if (segments.length > maxSegments) throw refusal(request, "order_list_too_long");
    const source = {
      keyId: request.keyId,
      segments,
      remembered: (version: string) => this.#memory.get(version),
      read: this.#groupReader(manifest, request),
    };
    const list = new ListUnderWay(source, this.#places, this.#expander, this.#sizes);
    if (!this.#places.take(list)) throw refusal(request, "order_lists_too_many");
    if (request.isHead) {
      this.#places.end(list);
      return null;
    }
    const renew = () => this.#database.renewLease(request.database, manifest);
    const leases = setInterval(() => request.waitUntil(renew()), leaseMs);
    return list.stream(texts, (error) => {
      clearInterval(leases);
      if (error !== undefined) request.log(eventOf(error), error);
    });
  }

  /**
   * Returns a function that reads some segments of a list.
   *
   * @throws {ListMovedError} if a bulk change or a restore has replaced a segment since the
   *   manifest was read, or housekeeping has removed its former states because the list's lease was
   *   not renewed for a day.
   */
  #groupReader(manifest: Manifest, { database, waitUntil }: ListRequest) {
    const read = this.#database.segmentsOf(database, manifest);
    const readGroup = async (group: readonly Segment[]): Promise<SegmentTexts> => {
      // A local D1 runs on the Worker's thread. Yield first, so that queued output is flushed and
      // other requests continue.
      await pause(0);
      const found = await read(group);
      if (found.size < group.length) {
        throw new ListMovedError(
          "While the list was sent, a bulk change or a restore has replaced the orders, or its lease was not renewed for a day.",
        );
      }
      for (const [segment, text] of found) this.#memory.add(segment, text);
      return found;
    };
    return (group: readonly Segment[]) => {
      const reading = readGroup(group);
      // Keep the request alive until the query settles, even if the client disconnects.
      waitUntil(reading.catch(() => undefined));
      return reading;
    };
  }

  #shortList(text: string): Uint8Array<ArrayBuffer> | "[]" {
    if (text.length === 0) return "[]";
    if (this.#latestShortList?.text !== text) {
      const json = this.#expander.expand(text, { opening: "[", closing: "]" });
      this.#latestShortList = { text, json };
    }
    return this.#latestShortList.json;
  }
}

/** The memory for the segments of the newest manifest: enough for a million ordinary orders. */
const MEMORY_BYTES = 48 * 2 ** 20;

/** The memory of a segment in bytes in addition to the text of its orders. */
const ENTRY_BYTES = 256;

/**
 * The newest manifest of an isolate, and those of its segments that fit into memory. Segments are
 * not evicted to make room: LRU would evict exactly those that a large list needs next.
 */
class SegmentMemory {
  readonly #maxBytes: number;
  #manifest: Manifest | null = null;
  /** The orders of each segment of the manifest, by version; `null` if memory lacks them. */
  #texts = new Map<string, string | null>();
  #bytes = 0;

  constructor(maxBytes = MEMORY_BYTES) {
    this.#maxBytes = maxBytes;
  }

  get manifest(): Manifest | null {
    return this.#manifest;
  }

  /** The versions of the segments in memory, in the order of the manifest. */
  get versions(): string[] {
    return [...this.#texts].filter(([, text]) => text !== null).map(([version]) => version);
  }

  get(version: string): string | undefined {
    return this.#texts.get(version) ?? undefined;
  }

  /** Sets the newest manifest, and forgets the segments that are not in it. */
  setManifest(manifest: Manifest): void {
    const kept = this.#texts;
    this.#manifest = manifest;
    this.#texts = new Map(manifest.segments.map(({ version }) => [version, null]));
    this.#bytes = 0;
    for (const [version, text] of kept) if (text !== null) this.add(version, text);
  }

  /** Adds a segment if the newest manifest contains it and enough memory is left. */
  add(version: string, text: string): void {
    const size = text.length + ENTRY_BYTES;
    if (this.#texts.get(version) !== null || this.#bytes + size > this.#maxBytes) return;
    this.#texts.set(version, text);
    this.#bytes += size;
  }
}

/** Returns the list versions that the clients of all these requests already have. */
function commonVersions(requests: readonly (readonly string[])[]): string[] {
  const [first = [], ...others] = requests.map((known) => new Set(known));
  return [...first].filter((version) => others.every((known) => known.has(version)));
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
