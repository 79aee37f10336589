import type { NearestReads } from "../db/nearest-reads.ts";
import { BatchedCalls } from "../batched-calls.ts";
import { commonTags } from "../preconditions.ts";
import {
  type Manifest,
  readSnapshot,
  renewLease,
  segmentReader,
  type Snapshot,
  type SnapshotNeeds,
} from "./list-database.ts";
import { ListError } from "./list-error.ts";
import { ListPlaces } from "./list-places.ts";
import { LIST_SIZES, type ListSizes } from "./list-sizes.ts";
import { CLOSING, ListStream, OPENING } from "./list-stream.ts";
import { SegmentMemory } from "./segment-memory.ts";

export interface ListRequest {
  readonly database: D1Database;
  readonly keyId: string;
  /** The versions of the list that the client has. */
  readonly knownVersions: SnapshotNeeds["knownVersions"];
  /** `null` if the request is refused. Without `mayReadReplica`, the primary database is read. */
  readonly admission: Promise<{ readonly mayReadReplica?: boolean } | null>;
  readonly waitUntil: (promise: Promise<unknown>) => void;
}

type RequestNeeds = Pick<SnapshotNeeds, "knownVersions" | "mayReadReplica">;

/** Reads the list of orders (docs/architecture.md, How a list is read). */
export class OrderLists {
  readonly reads: NearestReads;
  readonly places: ListPlaces;
  readonly #sizes: ListSizes;
  readonly #snapshots: BatchedCalls<RequestNeeds, Snapshot>;
  readonly #memory: SegmentMemory;
  #newest: Manifest | null = null;

  constructor(reads: NearestReads, sizes: Partial<ListSizes> = {}) {
    this.reads = reads;
    this.#sizes = { ...LIST_SIZES, ...sizes };
    this.places = new ListPlaces(this.#sizes);
    const { timeoutMs, queries } = reads;
    const { concurrency, memoryBytes, placeBytes } = this.#sizes;
    // If lists hold more than all places, memory has so much less room.
    const maxBytes = () => memoryBytes + Math.min(0, placeBytes - this.places.held);
    this.#memory = new SegmentMemory(maxBytes, timeoutMs);
    this.#snapshots = new BatchedCalls({ concurrency, timeoutMs, late: queries.unavailable });
  }

  /**
   * Reads what an answer needs; `null` if the request is not admitted.
   *
   * @throws {DatabaseUnavailableError} if the database does not respond.
   */
  async snapshot(request: ListRequest): Promise<Snapshot | null> {
    const { knownVersions, database, waitUntil } = request;
    const call = async (all: readonly RequestNeeds[]) => {
      const snapshot = await this.#query(database, all);
      return all.map(() => snapshot);
    };
    const read = (mayReadReplica: boolean) =>
      this.#snapshots.valueOf({ knownVersions, mayReadReplica }, call, waitUntil);
    const early = read(true);
    early.catch(() => undefined); // If the request is admitted, this error is thrown below.
    const admission = await request.admission;
    if (admission === null) return null;
    const snapshot = await early;
    return snapshot.servedBy.isPrimary || admission.mayReadReplica ? snapshot : read(false);
  }

  async #query(database: D1Database, requests: readonly RequestNeeds[]): Promise<Snapshot> {
    const held = this.#newest;
    const segmentVersions = this.#memory.versions;
    // If memory lacks the first segment, do not use the manifest in memory. The query then reads
    // that segment too, and the response begins after one round trip.
    const canReuseHeld = held !== null && segmentVersions[0] === held.segments[0]?.version;
    const common = commonTags(requests.map(({ knownVersions }) => knownVersions));
    const snapshot = await readSnapshot(this.reads, database, {
      knownVersions: common === "*" || !canReuseHeld ? common : [...common, held.version],
      segmentVersions,
      maxMissingBytes: Math.min(this.#sizes.bytesWithManifest, this.#memory.room),
      mayReadReplica: requests.every((request) => request.mayReadReplica),
    });
    const { json, servedBy, ...manifest } = snapshot;
    if (manifest.segments.length === 0) {
      // An insertion that changes nothing advances the sequence number, but not the version.
      const isHeld = held?.version === manifest.version;
      return { ...snapshot, segments: isHeld ? held.segments : [] };
    }
    // Keep the newest manifest, because queries can return out of order and replicas lag. Exception:
    // if memory has not changed meanwhile, an older manifest from the primary means a restore.
    const isRestored = servedBy.isPrimary && this.#newest === held;
    if (isRestored || this.#newest === null || manifest.sequence > this.#newest.sequence) {
      this.#newest = manifest;
      this.#memory.newest = new Set(manifest.segments.map(({ version }) => version));
    }
    this.#memory.add(json);
    return snapshot;
  }

  /**
   * Begins the list of a snapshot whose version the client does not have.
   *
   * @param options.isHead whether only headers are answered. The body is then `null`.
   * @param options.onBroken called with the error if a list that has begun does not end.
   * @throws {ListError} if the list is too long, or too many lists are sent.
   */
  async body(
    { json, ...manifest }: Snapshot,
    { keyId, database, waitUntil }: ListRequest,
    options: { readonly isHead: boolean; readonly onBroken: (error: unknown) => void },
  ): Promise<Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> | null> {
    const [memory, places, sizes] = [this.#memory, this.places, this.#sizes];
    const { segments } = manifest;
    const [first, second] = segments;
    if (first === undefined) throw new Error("The manifest of a needed list was not read.");
    const only = second === undefined && (json.get(first.version) ?? memory.get(first.version));
    if (only && only.length <= sizes.shortBytes) return options.isHead ? null : shortList(only);
    if (segments.length > sizes.maxSegments) throw new ListError("order_list_too_long");
    const read = segmentReader(this.reads, database, manifest, waitUntil);
    const list = new ListStream({ keyId, segments, memory, places, sizes, read });
    if (!memory.canHold(segments) && !(await places.wait(list))) {
      throw new ListError("order_lists_too_many");
    }
    if (options.isHead) {
      places.end(list);
      return null;
    }
    const renew = () => waitUntil(renewLease(this.reads, database, manifest));
    const leases = setInterval(renew, sizes.leaseMs);
    return list.start((error) => {
      clearInterval(leases);
      if (error !== undefined) options.onBroken(error);
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
