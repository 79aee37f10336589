import { MEMORY_BYTES } from "../../worker/orders/list-sizes.ts";
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
 *   `downloadSeconds`: the duration of one download.
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
  const read = segments * (1 - keptShare * unchangedShare(inIsolate, segmentChanges));

  const ordersPerSegment = orders / segments;
  const manifestShare = 1 - unchangedShare(inIsolate, changes);
  const downloadSeconds = (orders * MEASURED.listedOrderBytes * 8) / MEASURED.clientBitsPerSecond;
  return {
    sent,
    operations: listReads({ manifestShare, segments, segmentsRead: read, ordersPerSegment }),
    databaseMs:
      sent * manifestShare * segments * MEASURED.manifestMsPerSegment +
      sent * read * (ordersPerSegment / SEGMENT_ORDERS) * MEASURED.segmentReadMs,
    downloadSeconds,
  };
}

/**
 * Returns the share of reads that find no change since the previous read. Takes rates per second.
 */
function unchangedShare(reads: number, changes: number): number {
  return changes === 0 ? 1 : reads / (reads + changes);
}
