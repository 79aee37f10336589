import type { Segment, SegmentTexts } from "./list-queries.ts";
import type { ListSizes } from "./list-sizes.ts";
import type { Reservation } from "./lists-under-way.ts";
import { MAX_SHORTHAND_BYTES } from "./order-json.ts";
import type { SegmentMemory } from "./segment-memory.ts";

/** Segments that one query reads. Their memory stays reserved until the last one is sent. */
interface Group {
  readonly texts: Promise<SegmentTexts>;
  /** The versions of the segments that are not sent yet. */
  readonly unsent: Set<string>;
  readonly bytes: number;
}

/** Returns the memory in bytes that these orders in shorthand need. */
export function bytesOf(texts: SegmentTexts): number {
  return texts.values().reduce((sum, { length }) => sum + length, 0);
}

/** Returns an upper bound of the memory in bytes that the orders of these segments need. */
export function maxBytesOf(segments: readonly Segment[]): number {
  return segments.reduce((sum, { count }) => sum + count * MAX_SHORTHAND_BYTES, 0);
}

/**
 * Yields the orders of a list in shorthand, one segment after another. A segment comes from the
 * isolate's memory, else from the database. Several queries overlap, because each of them takes a
 * round trip. A segment that was queried is held until it is sent, so no segment is queried twice.
 *
 * @param options.texts the segments that were read with the manifest; `reservation` includes their
 *   memory. A segment is deleted from this map when it is sent.
 * @param options.ownBytes the part of `reservation` for one query, reserved from the beginning.
 *   Queries that read ahead run only if more memory can be reserved.
 * @throws the error of `read`.
 */
export async function* readInOrder(
  segments: readonly Segment[],
  options: {
    readonly texts: Map<string, string>;
    readonly memory: SegmentMemory;
    readonly reservation: Reservation;
    readonly ownBytes: number;
    readonly sizes: Pick<ListSizes, "groupSegments" | "groupsAhead">;
    readonly read: (segments: readonly Segment[]) => Promise<SegmentTexts>;
  },
): AsyncGenerator<string, void> {
  const { texts, memory, reservation, ownBytes, sizes, read } = options;
  /** The group of each segment that was queried but is not sent yet, by the segment's version. */
  const groups = new Map<string, Group>();
  let openGroups = 0;
  const isMissing = ({ version }: Segment) =>
    !groups.has(version) && memory.get(version) === undefined;
  const hold = (versions: Iterable<string>, group: Omit<Group, "unsent">) => {
    const unsent = new Set(versions);
    if (unsent.size > 0) openGroups += 1;
    for (const version of unsent) groups.set(version, { ...group, unsent });
  };
  const query = (wanted: readonly Segment[], bytes: number) =>
    hold(
      wanted.map(({ version }) => version),
      { texts: read(wanted), bytes },
    );
  const release = (version: string) => {
    const group = groups.get(version);
    groups.delete(version);
    texts.delete(version);
    group?.unsent.delete(version);
    if (group?.unsent.size !== 0) return;
    openGroups -= 1;
    reservation.shrink(group.bytes);
  };

  hold(texts.keys(), { texts: Promise.resolve<SegmentTexts>(texts), bytes: bytesOf(texts) });
  let next = 0;
  for (const [index, segment] of segments.entries()) {
    if (isMissing(segment)) {
      const own = [segment];
      for (const later of segments.slice(index + 1, index + sizes.groupSegments)) {
        if (maxBytesOf([...own, later]) > ownBytes) break;
        own.push(later);
      }
      query(own.filter(isMissing), 0);
      next = index + own.length;
    }
    next = Math.max(next, index + 1);
    // Reads ahead only after the first segment is sent, so that the response begins early.
    while (index > 0 && next < segments.length && openGroups < sizes.groupsAhead) {
      const ahead = segments.slice(next, next + sizes.groupSegments).filter(isMissing);
      const bytes = maxBytesOf(ahead);
      if (!reservation.grow(bytes)) break;
      if (ahead.length > 0) query(ahead, bytes);
      next += sizes.groupSegments;
    }
    const { version } = segment;
    const text = memory.get(version) ?? (await groups.get(version)?.texts)?.get(version);
    if (text === undefined) throw new Error("A segment of the list was not read.");
    yield text;
    release(version);
  }
}
