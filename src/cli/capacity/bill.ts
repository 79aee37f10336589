import { BILLED_ITEMS, type BilledItem, PLAN_DOLLARS, PRICES } from "./prices.ts";

/** How much of each item a month uses. */
export type BilledUse = Readonly<Record<BilledItem, number>>;

/** What a month costs, in dollars. */
export interface Bill {
  readonly items: BilledUse;
  /** The plan itself included. */
  readonly total: number;
}

/** Prices a month, less what the plan includes. */
export function bill(use: BilledUse): Bill {
  const priced = BILLED_ITEMS.map((item): [BilledItem, number] => {
    const { per, dollars, included } = PRICES[item];
    return [item, (Math.max(0, use[item] - included) / per) * dollars];
  });
  return {
    items: Object.fromEntries(priced) as Record<BilledItem, number>,
    total: priced.reduce((sum, [, dollars]) => sum + dollars, PLAN_DOLLARS),
  };
}
