import type { Basis } from "./basis.ts";
import { isolatesAtPeak, type ListLoad } from "./list-load.ts";
import type { DatabaseBusy } from "./month-of-operations.ts";
import type { MonthOfRequests } from "./month-of-requests.ts";
import { LIST_PAGE_ORDERS } from "./operations.ts";
import { type GrowingLimit, PLATFORM_LIMITS } from "./platform-limits.ts";

/** How much of a limit a scale uses. */
export interface LimitShare {
  readonly name: GrowingLimit;
  readonly used: number;
  /** Of the limit: above 1 it is broken. */
  readonly share: number;
}

/** In memory for each list under way: two pages, as text that D1 sent and as bytes to be sent on. */
const LIST_BYTES_IN_MEMORY = 5e6;

/** What of a month counts against limits. */
interface MonthOfUse {
  readonly requests: MonthOfRequests;
  readonly list: ListLoad;
  readonly databaseBusy: DatabaseBusy;
  readonly bytes: { readonly inDatabase: number };
}

/** What is used of each limit, that of which most is used first: as everything grows, it breaks first. */
export function limitShares(
  { requests, list, databaseBusy, bytes }: MonthOfUse,
  basis: Basis,
): LimitShare[] {
  const { measured, assumptions } = basis;
  const listSeconds = Math.max(list.readSeconds, list.clientSeconds);
  const readPerSecond = (list.read / requests.total) * requests.perSecondAtPeak;
  const listsAtOnce = (readPerSecond * listSeconds) / isolatesAtPeak(requests, basis);
  const ordersRead = 2 * list.pages * list.pageFill * LIST_PAGE_ORDERS;
  const used: Readonly<Record<GrowingLimit, number>> = {
    databaseBytes: bytes.inDatabase,
    databaseTime: databaseBusy.atPeak,
    // The list is read once for the answer and once for the cache, in one invocation.
    queriesPerRequest: list.pages === 1 ? 2 : 2 * list.pages + 1,
    requestCpuMs: assumptions.cost.requestCpuMs + ordersRead * measured.orderCpuMs,
    afterAnswerSeconds: list.readSeconds,
    cacheEntryBytes: list.pages === 1 ? 0 : list.bytes,
    isolateBytes: Math.max(1, listsAtOnce) * LIST_BYTES_IN_MEMORY,
  };
  return (Object.keys(used) as GrowingLimit[])
    .map((name) => ({ name, used: used[name], share: used[name] / PLATFORM_LIMITS[name].limit }))
    .toSorted((one, other) => other.share - one.share);
}
