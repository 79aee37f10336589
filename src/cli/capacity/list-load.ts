import { type Basis, MONTH_DAYS, MONTH_SECONDS, type Scale } from "./basis.ts";
import type { MonthOfRequests } from "./month-of-requests.ts";
import { type OneList, oneList } from "./one-list.ts";
import { LIST_PAGE_ORDERS } from "./operations.ts";
import { PLATFORM_LIMITS } from "./platform-limits.ts";

/** What the list of orders costs in a month. */
export interface ListLoad extends OneList {
  /** How often the list changes in a second. */
  readonly changesPerSecond: number;
  /** Of the lists asked for: answered 304; sent from an isolate's memory or a data centre's cache; and from the database. */
  readonly notModified: number;
  readonly kept: number;
  readonly read: number;
  readonly pagesRead: number;
  /** Of the pages, those that only the primary can read. */
  readonly firstPagesRead: number;
  readonly ordersRead: number;
  readonly sentBytes: number;
}

/**
 * How often the list is read from the database. Lists are asked for, and the list changes, as
 * independent events: of `r` lists and `c` changes a second a place that keeps the list reads a share
 * of `c / (r + c)` anew.
 */
export function listLoad(scale: Scale, requests: MonthOfRequests, basis: Basis): ListLoad {
  const list = oneList(scale.orders, basis);
  const changesPerSecond = (requests.ordersPlaced + requests.cancelled) / MONTH_SECONDS;
  const unchanged = basis.traffic.conditionalLists.withoutEvent(changesPerSecond);
  const notModified = unchanged * scale.keys * MONTH_DAYS;
  const sent = requests.lists - notModified;

  const isolates = isolatesAtPeak(requests, basis);
  const firstInIsolate = shareOfFirst(sent / MONTH_SECONDS / isolates, changesPerSecond);
  const isOnePage = list.pages === 1;
  const keptShare = isOnePage
    ? 1 - firstInIsolate
    : cachedShare(list, { sent, changesPerSecond }, basis);
  const kept = sent * keptShare;
  const read = sent - kept;
  // A long list that was sent is read once more, into the cache; each isolate that finds it there
  // reads a page before.
  const readings = isOnePage ? read : 2 * read;
  const looks = isOnePage ? 0 : Math.min(kept, sent * firstInIsolate);
  const pagesRead = readings * list.pages + looks;
  return {
    ...list,
    changesPerSecond,
    notModified,
    kept,
    read,
    pagesRead,
    firstPagesRead: readings + looks,
    ordersRead: pagesRead * list.pageFill * LIST_PAGE_ORDERS,
    sentBytes: sent * list.bytes,
  };
}

/** How many isolates answer at the busiest hour: as many as are assumed, or as half of their time takes. */
export function isolatesAtPeak(
  { perSecondAtPeak }: MonthOfRequests,
  { assumptions: { network, cost } }: Basis,
): number {
  const busy = (perSecondAtPeak * cost.requestCpuMs) / 1_000;
  return Math.max(network.dataCentres * network.isolates, 2 * busy);
}

/**
 * The share of lists that come from a data centre's cache. It has a version once one list of it was
 * sent and then stored, each of which takes a reading, and only if it changed in neither.
 */
function cachedShare(
  { bytes, readSeconds }: OneList,
  { sent, changesPerSecond }: { readonly sent: number; readonly changesPerSecond: number },
  { assumptions: { network } }: Basis,
): number {
  const { cacheEntryBytes, afterAnswerSeconds } = PLATFORM_LIMITS;
  if (bytes > cacheEntryBytes.limit || readSeconds > afterAnswerSeconds.limit) return 0;
  const unchanged = Math.exp(-changesPerSecond * 2 * readSeconds);
  const perDataCentre = sent / MONTH_SECONDS / network.dataCentres;
  return unchanged * (1 - shareOfFirst(perDataCentre, changesPerSecond));
}

/** Of events `perSecond`, the share that is the first after one of the changes. */
function shareOfFirst(perSecond: number, changesPerSecond: number): number {
  return changesPerSecond / (perSecond + changesPerSecond);
}
