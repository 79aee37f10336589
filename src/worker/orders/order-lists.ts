import QuickLRU from "quick-lru";
import { type Config, REMEMBERED_KEYS } from "../../rules/config.ts";
import type { DatabaseQueries } from "../db/availability.ts";
import { BatchedQuery } from "../db/batched-query.ts";
import type { StatementSource } from "../db/statement.ts";
import { pause } from "../deadline.ts";
import { ApiError } from "../errors.ts";
import {
  type Manifest,
  readSegments,
  readSnapshot,
  type Segment,
  type SegmentTexts,
  type Snapshot,
} from "./list-queries.ts";
import { ListReader } from "./list-reader.ts";
import { LIST_SIZES, type ListSizes } from "./list-sizes.ts";
import { listStream, listText, StalledReaderError } from "./list-stream.ts";
import { ListsUnderWay } from "./lists-under-way.ts";
import type { OrderExpander } from "./order-expander.ts";
import { SegmentMemory } from "./segment-memory.ts";
import { bytesOf, maxBytesOf, readInOrder } from "./segment-reader.ts";

/** The bytes of a typical order in shorthand (`order-json.ts`). Its JSON is twice as long. */
const ORDER_BYTES = 48;

/** How long `#seen` remembers a change: much longer than a replica can lag behind. */
const SEEN_MS = 3_600_000;

class ListMovedError extends Error {}

/** Log events (docs/observability.md): three for a list that is cut off, the others for a 503. */
export type ListEvent =
  | "order_list_moved"
  | "order_list_stalled"
  | "order_list_broken"
  | keyof typeof REFUSALS;

export interface ListRequest {
  readonly database: D1Database;
  readonly keyId: string;
  /** The list versions that the HTTP client already has; `"*"` matches any version. */
  readonly knownVersions: readonly string[] | "*";
  readonly log: (event: ListEvent, error?: unknown) => void;
  readonly waitUntil: (promise: Promise<unknown>) => void;
}

interface RequestNeeds extends Pick<ListRequest, "knownVersions"> {
  /** The lowest acceptable sequence number; `Infinity` requires the primary database. */
  readonly atLeast: number;
}

interface OrderList {
  readonly version: string;
  /** The list as a JSON array; `null` if the HTTP client already has this version. */
  readonly body: Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> | "[]" | null;
}

/**
 * Reads the list of orders. If the client or the isolate already has the current version of the
 * list, a request reads one database row. Otherwise, one query reads the manifest and the missing
 * segments. If memory lacks more than about 130,000 orders, further queries read them as they were
 * when the manifest was read. So changes meanwhile do not affect the list.
 */
export class OrderLists {
  readonly #reader: ListReader;
  readonly #expander: OrderExpander;
  readonly #sizes: ListSizes;
  readonly #snapshots: BatchedQuery<RequestNeeds, Snapshot>;
  readonly #underWay: ListsUnderWay;
  readonly #memory: SegmentMemory;
  /** The sequence number of the newest change that each key has seen, by the key's id. */
  readonly #seen = new QuickLRU<string, number>({ maxSize: REMEMBERED_KEYS, maxAge: SEEN_MS });
  /** The latest short list, kept because most requests ask for the same list again. */
  #latestShortList: { readonly text: string; readonly json: Uint8Array<ArrayBuffer> } | null = null;

  constructor(
    queries: DatabaseQueries,
    expander: OrderExpander,
    {
      sizes: changedSizes = {},
      memory = new SegmentMemory(),
      underWay,
      listReads = "primary",
    }: {
      readonly sizes?: Partial<ListSizes>;
      readonly memory?: SegmentMemory;
      readonly underWay?: ListsUnderWay;
      readonly listReads?: Config["listReads"];
    } = {},
  ) {
    const sizes = { ...LIST_SIZES, ...changedSizes };
    this.#reader = new ListReader(queries, listReads === "nearest");
    this.#expander = expander;
    this.#memory = memory;
    this.#sizes = sizes;
    this.#underWay = underWay ?? new ListsUnderWay(sizes.underWayBytes, sizes.stallMs);
    const { concurrency } = sizes;
    const { timeoutMs } = this.#reader;
    this.#snapshots = new BatchedQuery({ concurrency, timeoutMs, late: queries.unavailable });
  }

  get areNearest(): boolean {
    return this.#reader.isNearest;
  }

  /** @throws {DatabaseUnavailableError} if the database does not respond. */
  read(request: ListRequest): Promise<Snapshot> {
    return this.#read(request, this.#seen.get(request.keyId) ?? 0);
  }

  /**
   * Returns `snapshot`, or one from the primary database if `snapshot` is too old. A snapshot must
   * be as new as the key's last cancellation, and as every list that this isolate sent to the key.
   *
   * @param cancellation the sequence number of the key's last cancellation: 0 if there is none,
   *   `Infinity` if it is unknown.
   */
  async renew(snapshot: Snapshot, request: ListRequest, cancellation: number): Promise<Snapshot> {
    if (!this.areNearest) return snapshot;
    const atLeast = Math.max(cancellation, this.#seen.get(request.keyId) ?? 0);
    const isNewEnough = snapshot.servedBy.isPrimary || snapshot.sequence >= atLeast;
    const renewed = isNewEnough ? snapshot : await this.#read(request, Infinity);
    this.saw(request.keyId, renewed.sequence);
    return renewed;
  }

  saw(keyId: string, sequence: number): void {
    if (sequence > (this.#seen.get(keyId) ?? 0)) this.#seen.set(keyId, sequence);
  }

  #read({ knownVersions, database, waitUntil }: ListRequest, atLeast: number): Promise<Snapshot> {
    const query = (requests: readonly RequestNeeds[]) => this.#query(database, requests);
    return this.#snapshots.read({ knownVersions, atLeast }, query, waitUntil);
  }

  /** @throws {ApiError} if the list is too long or too many lists are being sent. */
  answer({ version, manifest, texts }: Snapshot, request: ListRequest): OrderList {
    const { knownVersions } = request;
    if (knownVersions === "*" || knownVersions.includes(version)) return { version, body: null };
    if (manifest === null) throw new Error("The manifest of a needed list was not read.");
    return { version, body: this.#body(manifest, texts, request) };
  }

  async #query(database: D1Database, requests: readonly RequestNeeds[]): Promise<Snapshot> {
    const atLeast = Math.max(...requests.map((request) => request.atLeast));
    const held = this.#memory.manifest;
    const segmentVersions = this.#memory.versions;
    const listRequests = requests
      .map(({ knownVersions }) => knownVersions)
      .filter((versions) => versions !== "*");
    // If memory lacks the first segment, do not use the manifest in memory. The query then reads
    // that segment too, and the response begins after one round trip.
    const canReuseHeld = held !== null && segmentVersions[0] === held.segments[0]?.version;
    const readFrom = async (source: StatementSource): Promise<Snapshot> => {
      const snapshot = await readSnapshot(source, {
        needsManifest: listRequests.length > 0,
        knownVersions: [...commonVersions(listRequests), ...(canReuseHeld ? [held.version] : [])],
        segmentVersions,
        maxMissing: this.#sizes.missingWithManifest,
      });
      if (source !== database) return snapshot;
      // Without a session, D1 always queries the primary, whether or not its result says so.
      return { ...snapshot, servedBy: { ...snapshot.servedBy, isPrimary: true } };
    };
    const isNewEnough = (found: Snapshot) => found.sequence >= atLeast;
    const options = { isPrimaryOnly: atLeast === Infinity };
    const snapshot = await this.#reader.read(database, readFrom, isNewEnough, options);
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

  #body(
    manifest: Manifest,
    texts: SegmentTexts,
    request: ListRequest,
  ): NonNullable<OrderList["body"]> {
    const { segments } = manifest;
    const { maxSegments, sliceBytes, stallMs } = this.#sizes;
    const [first] = segments;
    if (segments.length === 1 && first !== undefined) {
      const text = texts.get(first.version) ?? this.#memory.get(first.version);
      if (text !== undefined && text.length <= sliceBytes) return this.#shortList(text);
    }
    if (segments.length > maxSegments) throw refusal(request, "order_list_too_long");
    const ownBytes = this.#ownBytes(segments);
    // One piece of JSON is about twice as long as its shorthand.
    const reservation = this.#underWay.reserve(2 * sliceBytes + ownBytes);
    if (reservation === null) throw refusal(request, "order_lists_too_many");
    const hasRoom = reservation.grow(bytesOf(texts));
    const orders = readInOrder(segments, {
      texts: new Map(hasRoom ? texts : []),
      memory: this.#memory,
      reservation,
      ownBytes,
      sizes: this.#sizes,
      read: (group) => {
        const reading = this.#readGroup(request.database, manifest, group);
        // Keep the request alive until the query settles, even if the client disconnects.
        request.waitUntil(reading.catch(() => undefined));
        return reading;
      },
    });
    return listStream(listText(orders, this.#expander, sliceBytes), {
      stallMs,
      onProgress: () => reservation.progressed(),
      onEnd(error) {
        reservation.release();
        if (error !== undefined) request.log(eventOf(error), error);
      },
    });
  }

  /**
   * @throws {ListMovedError} if a bulk change or a restore has replaced a segment since the
   *   manifest was read.
   */
  async #readGroup(
    database: D1Database,
    manifest: Manifest,
    group: readonly Segment[],
  ): Promise<SegmentTexts> {
    // A local D1 runs on the Worker's thread. Yield first, so that queued output is flushed and
    // other requests continue.
    await pause(0);
    const query = (source: StatementSource) => readSegments(source, manifest, group);
    // A replica that is older than the manifest lacks segments.
    const isUsable = ({ size }: SegmentTexts) => size === group.length;
    const options = { isRepeatable: true };
    const found = await this.#reader.read(database, query, isUsable, options);
    if (found.size < group.length) {
      throw new ListMovedError(
        "A bulk change or a restore has replaced the orders while the list was sent.",
      );
    }
    for (const [segment, text] of found) this.#memory.add(segment, text);
    return found;
  }

  /**
   * Returns the bytes to reserve for one query, enough for the largest segment. If the list does
   * not fit into memory, the bytes are enough for a group of segments. Reading whole groups keeps
   * the number of queries below Cloudflare's limit for a request.
   */
  #ownBytes(segments: readonly Segment[]): number {
    const largest = Math.max(...segments.map((segment) => maxBytesOf([segment])));
    const orders = segments.reduce((sum, { count }) => sum + count, 0);
    const count = this.#memory.holds(orders * ORDER_BYTES) ? 1 : this.#sizes.groupSegments;
    return Math.max(this.#sizes.queryBytes, count * largest);
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
