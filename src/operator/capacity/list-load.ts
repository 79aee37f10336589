import { type Assumptions, MEASURED } from "./assumptions.ts";
import {
  LIST_SIZES,
  listReads,
  SEGMENT_ORDERS,
  segmentCount,
  sumOperations,
} from "./operations.ts";
import { MONTH_SECONDS, type Requests } from "./requests.ts";

/**
 * Estimates how often lists read the database. Lists and changes are independent events, and a
 * change hits each segment with the same probability. A place that is asked `a` times a second for
 * something that changes `c` times a second finds it changed in `c / (a + c)` of the cases.
 *
 * @returns the lists that are answered with orders, not with 304, what they cost in a month beyond
 *   `unchangedList`, and the share of them that break off because a segment changes too early.
 */
export function listLoad(
  orders: number,
  requests: Pick<Requests, "lists" | "changes">,
  { conditionalShare, secondsBetweenLists, dataCentres, isolates }: Assumptions,
) {
  const segments = segmentCount(orders);
  const changes = requests.changes / MONTH_SECONDS;
  const segmentChanges = changes / segments;
  const sent = requests.lists * (1 - conditionalShare / (1 + changes * secondsBetweenLists));
  const inDataCentre = sent / MONTH_SECONDS / dataCentres;
  const inIsolate = inDataCentre / isolates;

  const keptShare = Math.min(1, LIST_SIZES.keptBytes / (orders * MEASURED.keptOrderBytes));
  const missing = segments * (1 - keptShare * unchangedShare(inIsolate, segmentChanges));
  // An entry of the cache holds a group of segments, and a change in one of them makes it useless.
  const { groupSegments, cacheCalls } = LIST_SIZES;
  const groupChanges = segmentChanges * groupSegments;
  const uncached = segments * (1 - unchangedShare(inDataCentre, groupChanges));
  // One call reads ahead, and one takes the group when its turn comes.
  const unasked = Math.max(0, missing - uncached - (cacheCalls / 2) * groupSegments);
  const isReadAtOnce = missing <= LIST_SIZES.missingWithManifest;
  const read = isReadAtOnce ? missing : Math.min(missing, uncached + unasked);

  const ordersPerSegment = orders / segments;
  const manifestShare = 1 - unchangedShare(inIsolate, changes);
  const downloadSeconds = (orders * MEASURED.listedOrderBytes * 8) / MEASURED.clientBitsPerSecond;
  // Segments are read ahead of the client, except those that the cache was not asked for.
  const aheadSeconds =
    (missing * MEASURED.cacheCallMs + read * MEASURED.queryMs) / groupSegments / 1_000;
  const readSeconds = (read - unasked) * aheadSeconds + unasked * downloadSeconds;
  // On average, half of that time passes before a segment is read.
  const readLate = isReadAtOnce ? 0 : readSeconds / 2;
  return {
    sent,
    operations: sumOperations([
      [listReads({ manifestShare, segments, segmentsRead: read, ordersPerSegment }), sent],
    ]),
    databaseMs:
      sent * manifestShare * segments * MEASURED.manifestMsPerSegment +
      sent * read * (ordersPerSegment / SEGMENT_ORDERS) * MEASURED.segmentReadMs,
    downloadSeconds,
    brokenShare: 1 - Math.exp(-readLate * segmentChanges),
  };
}

/** The share of `asked` that find what the one before found. Both are events a second. */
function unchangedShare(asked: number, changes: number): number {
  return changes === 0 ? 1 : asked / (asked + changes);
}
