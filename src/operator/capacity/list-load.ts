import { LIST_SIZES, MEMORY_BYTES } from "../../worker/orders/list-sizes.ts";
import { type Assumptions, MEASURED } from "./assumptions.ts";
import { listReads, SEGMENT_ORDERS, segmentCount } from "./operations.ts";
import { MONTH_SECONDS } from "./requests.ts";

/**
 * Estimates how often list requests read the database. Assumes that lists and changes are
 * independent events, and that a change affects each segment with the same probability. If
 * something is read `a` times and changes `c` times a second, `c / (a + c)` of the reads find a
 * change (docs/capacity.md).
 *
 * @returns `sent`: the list requests of a month whose response is 200 rather than 304.
 *   `operations`: the operations of one of these requests, without those that `unchangedList` in
 *   operations.ts has. `databaseMs`: how long these requests keep the database busy in a month.
 *   `downloadSeconds`: the duration of one download. `brokenShare`: the share of the lists that the
 *   service aborts because a segment changes before it is read.
 */
export function listLoad(
  orders: number,
  requests: { readonly lists: number; readonly changes: number },
  { conditionalShare, secondsBetweenLists, dataCentres, isolates }: Assumptions,
) {
  const segments = segmentCount(orders);
  const changes = requests.changes / MONTH_SECONDS;
  const segmentChanges = changes / segments;
  const sent = requests.lists * (1 - conditionalShare / (1 + changes * secondsBetweenLists));
  const inDataCentre = sent / MONTH_SECONDS / dataCentres;
  const inIsolate = inDataCentre / isolates;

  const keptShare = Math.min(1, MEMORY_BYTES / (orders * MEASURED.keptOrderBytes));
  const missing = segments * (1 - keptShare * unchangedShare(inIsolate, segmentChanges));
  // A cache entry holds a group of segments. A change of one segment makes the whole entry useless.
  const { groupSegments, cacheCalls } = LIST_SIZES;
  const groupChanges = segmentChanges * groupSegments;
  const uncached = segments * (1 - unchangedShare(inDataCentre, groupChanges));
  // A list makes two cache calls for each cached group: one checks that the cache has the group,
  // and one reads the group.
  const unasked = Math.max(0, missing - uncached - (cacheCalls / 2) * groupSegments);
  const isReadAtOnce = missing <= LIST_SIZES.missingWithManifest;
  const read = isReadAtOnce ? missing : Math.min(missing, uncached + unasked);

  const ordersPerSegment = orders / segments;
  const manifestShare = 1 - unchangedShare(inIsolate, changes);
  const downloadSeconds = (orders * MEASURED.listedOrderBytes * 8) / MEASURED.clientBitsPerSecond;
  // The service prefetches segments within `aheadSeconds`. `unasked` segments exceed the limit of
  // cache calls: the service reads them during the download instead.
  const aheadSeconds =
    (missing * MEASURED.cacheCallMs + read * MEASURED.queryMs) / groupSegments / 1_000;
  const readSeconds = (read - unasked) * aheadSeconds + unasked * downloadSeconds;
  // `readSeconds` adds up, for all segments, the period in which a segment is read. On average, a
  // segment is read in the middle of its period.
  const readLate = isReadAtOnce ? 0 : readSeconds / 2;
  return {
    sent,
    operations: listReads({ manifestShare, segments, segmentsRead: read, ordersPerSegment }),
    databaseMs:
      sent * manifestShare * segments * MEASURED.manifestMsPerSegment +
      sent * read * (ordersPerSegment / SEGMENT_ORDERS) * MEASURED.segmentReadMs,
    downloadSeconds,
    brokenShare: 1 - Math.exp(-readLate * segmentChanges),
  };
}

/**
 * Returns the share of reads that find no change since the previous read. Takes rates per second.
 */
function unchangedShare(reads: number, changes: number): number {
  return changes === 0 ? 1 : reads / (reads + changes);
}
