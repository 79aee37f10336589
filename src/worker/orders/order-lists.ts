import type { Config } from "../../rules/config.ts";
import type { DatabaseQueries } from "../db/availability.ts";
import { BatchedCalls } from "../batched-calls.ts";
import { ApiError } from "../errors.ts";
import { allowsMatch, commonTags, knownTags, type Preconditions } from "../preconditions.ts";
import {
  ListDatabase,
  ListMovedError,
  type Snapshot,
  type SnapshotNeeds,
} from "./list-database.ts";
import { ListPlaces } from "./list-places.ts";
import { LIST_SIZES, type ListSizes } from "./list-sizes.ts";
import { CLOSING, CutOffError, ListStream, OPENING } from "./list-stream.ts";
import { SegmentMemory } from "./segment-memory.ts";

/** Log events (docs/operating.md, The log): three for a list that is cut off, the others for a 503. */
export type ListEvent =
  | "order_list_moved"
  | "order_list_displaced"
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

type RequestNeeds = Pick<SnapshotNeeds, "knownVersions" | "mayReadReplica">;

interface OrderList extends Pick<Snapshot, "version"> {
  /** The database that served the list, if lists may come from a replica. */
  readonly servedBy: Snapshot["servedBy"] | null;
  /** Whether the HTTP client already has this version. */
  readonly isKnown: boolean;
  /** The list as a JSON array; `null` if it is known, or if only the headers were requested. */
  readonly body: Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> | null;
}

/**
 * Reads the list of orders. If the client or the isolate already has the current version of the
 * list, a request reads one database row. Otherwise, one query reads the manifest and the missing
 * segments. If memory lacks more than about 130,000 orders, further queries read them as they were
 * when the manifest was read. So changes meanwhile do not affect the list.
 */
export class OrderLists {
  readonly #database: ListDatabase;
  readonly #sizes: ListSizes;
  readonly #snapshots: BatchedCalls<RequestNeeds, Snapshot>;
  readonly #places: ListPlaces;
  readonly #memory: SegmentMemory;

  constructor(
    queries: DatabaseQueries,
    options: {
      readonly sizes?: Partial<ListSizes>;
      readonly places?: ListPlaces;
      readonly listReads?: Config["listReads"];
    } = {},
  ) {
    this.#sizes = { ...LIST_SIZES, ...options.sizes };
    this.#database = new ListDatabase(queries, options.listReads === "nearest");
    const { timeoutMs } = this.#database.reads;
    const { concurrency, memoryBytes } = this.#sizes;
    this.#places = options.places ?? new ListPlaces(this.#sizes);
    this.#memory = new SegmentMemory(() => memoryBytes - this.#places.overdraft, timeoutMs);
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
    const { version, servedBy } = snapshot;
    if (!allowsMatch(request.preconditions, version)) {
      throw new ApiError(
        "precondition_failed",
        "The list has another entity tag than If-Match requires. Repeat the request without If-Match.",
      );
    }
    const known = knownTags(request.preconditions);
    const isKnown = known === "*" || known.includes(version);
    const body = isKnown ? null : await this.#body(snapshot, request);
    return { version, servedBy: this.#database.reads.isNearest ? servedBy : null, isKnown, body };
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
    // If memory lacks the first segment, do not use the manifest in memory. The query then reads
    // that segment too, and the response begins after one round trip.
    const canReuseHeld = held !== null && segmentVersions[0] === held.segments[0]?.version;
    const common = commonTags(requests.map(({ knownVersions }) => knownVersions));
    const snapshot = await this.#database.snapshot(database, {
      knownVersions: common === "*" || !canReuseHeld ? common : [...common, held.version],
      segmentVersions,
      maxMissingBytes: Math.min(this.#sizes.bytesWithManifest, this.#memory.room),
      mayReadReplica: requests.every((request) => request.mayReadReplica),
    });
    const { version, sequence, manifest, json, servedBy } = snapshot;
    if (manifest === null) {
      // No request needs the manifest, or the list's version is known. If memory has this version,
      // only the sequence number may be outdated: an insertion that changes nothing advances it.
      const isHeld = held?.version === version;
      return isHeld ? { ...snapshot, manifest: { ...held, sequence } } : snapshot;
    }
    // Keep the newest manifest, because queries can return out of order and replicas lag. Exception:
    // if memory has not changed meanwhile, an older manifest from the primary means a restore.
    const newest = this.#memory.manifest;
    const isRestored = servedBy.isPrimary && newest === held;
    if (isRestored || newest === null || manifest.sequence > newest.sequence) {
      this.#memory.manifest = manifest;
    }
    this.#memory.add(json);
    return snapshot;
  }

  async #body({ manifest, json }: Snapshot, request: ListRequest): Promise<OrderList["body"]> {
    if (manifest === null) throw new Error("The manifest of a needed list was not read.");
    const { keyId, isHead, database } = request;
    const [memory, places, sizes] = [this.#memory, this.#places, this.#sizes];
    const [first, second] = manifest.segments;
    const version = first?.version ?? "";
    const only = second === undefined ? (json.get(version) ?? memory.get(version)) : undefined;
    if (only !== undefined && only.length <= sizes.shortBytes) {
      return isHead ? null : shortList(only);
    }
    if (manifest.segments.length > sizes.maxSegments) {
      throw refusal(request, "order_list_too_long");
    }
    const read = this.#database.segmentsOf(database, manifest, request.waitUntil);
    const list = new ListStream({ keyId, manifest, memory, places, sizes, read });
    if (!memory.canHold(manifest) && !(await places.wait(list))) {
      throw refusal(request, "order_lists_too_many");
    }
    if (isHead) {
      places.end(list);
      return null;
    }
    const renew = () => this.#database.renewLease(database, manifest);
    const leases = setInterval(() => request.waitUntil(renew()), sizes.leaseMs);
    return list.start((error) => {
      clearInterval(leases);
      if (error !== undefined) request.log(eventOf(error), error);
    });
  }
}

/** Returns a list of one segment as a copy. */
function shortList(segment: Uint8Array): Uint8Array<ArrayBuffer> {
  const json = new Uint8Array(Math.max(1, segment.length) + 1);
  json.set(segment);
  // The comma before the first order becomes the opening bracket.
  json.set(OPENING);
  json.set(CLOSING, json.length - 1);
  return json;
}

function eventOf(error: unknown): ListEvent {
  if (error instanceof ListMovedError) return "order_list_moved";
  if (error instanceof CutOffError) return "order_list_displaced";
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
