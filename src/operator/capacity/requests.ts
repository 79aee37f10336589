import type { Assumptions } from "./assumptions.ts";
import { OPERATIONS, type Operations, sumOperations } from "./operations.ts";

/** A twelfth of a year. */
export const MONTH_DAYS = 365 / 12;
export const MONTH_SECONDS = MONTH_DAYS * 86_400;

/** The number of usage reports of a key on a day with requests. */
const REPORTS_A_DAY = 5;

/** The size of the service: how many keys and orders it stores. */
export interface Scale {
  readonly keys: number;
  readonly orders: number;
}

/** A month's operations on one of the two databases, and how many of its queries write. */
export interface DatabaseUse {
  readonly operations: Operations;
  readonly writes: number;
}

/** Estimates a month's requests, and the operations that do not depend on the size of a list. */
export function requestsInMonth({ keys, orders }: Scale, assumptions: Assumptions) {
  const { activeShare, refusedShare, repeatedShare } = assumptions;
  const keyDays = keys * MONTH_DAYS;
  const withKey = keyDays * assumptions.requestsPerKey;
  const unauthorized = withKey * assumptions.unauthorizedShare;
  const admitted = withKey * Math.max(0, 1 - refusedShare - repeatedShare);
  const cancellations = admitted * assumptions.cancelShare;
  const lists = admitted - cancellations;
  const placed = orders * assumptions.changesPerOrder * MONTH_DAYS;
  // `placed` counts placements and shipments. The estimate assumes at most as many cancellations.
  const cancelled = Math.min(cancellations, placed);
  const reports = keyDays * activeShare * REPORTS_A_DAY;
  return {
    total: withKey + unauthorized,
    /** The admitted list requests, whether the response is 200 or 304. */
    lists,
    /** The number of placements, shipments and cancellations of orders. */
    changes: placed + cancelled,
    /** The requests that need the orders database. */
    orders: {
      writes: placed + cancelled,
      operations: sumOperations([
        [OPERATIONS.unchangedList, lists],
        [OPERATIONS.cancellation, cancelled],
        [OPERATIONS.vainCancellation, cancellations - cancelled],
        [OPERATIONS.refusal, withKey * refusedShare],
        [OPERATIONS.orderChange, placed],
      ]),
    },
    /** The requests and background work that use the keys database or no database. */
    keys: {
      writes: reports,
      operations: sumOperations([
        [OPERATIONS.repeatedRefusal, withKey * repeatedShare],
        [OPERATIONS.unauthorized, unauthorized],
        [OPERATIONS.keyLookUp, withKey * assumptions.lookUpShare],
        [OPERATIONS.usageReport, reports],
        // The Durable Object of a key deletes its rows if the key is not used on the next day.
        [OPERATIONS.objectEnd, keyDays * activeShare * (1 - activeShare)],
      ]),
    },
  };
}
