import { type Basis, MONTH_DAYS, MONTH_SECONDS, type Scale } from "./basis.ts";
import { sentPerDay } from "./traffic/traffic.ts";

/** Requests in a month, by what becomes of them. */
export interface MonthOfRequests {
  readonly total: number;
  readonly perSecond: number;
  readonly perSecondAtPeak: number;
  readonly lists: number;
  readonly cancellations: number;
  /** Of the cancellations, those that find an order: no more than are placed. */
  readonly cancelled: number;
  readonly refusedByObject: number;
  readonly refusedFromMemory: number;
  readonly unauthorized: number;
  /** Orders placed or shipped meanwhile, by whoever keeps the store. */
  readonly ordersPlaced: number;
}

/** The simulated day of a key, for all keys and days of a month. */
export function monthOfRequests(
  { keys, orders }: Scale,
  { traffic: { mean, peakFactor }, assumptions }: Basis,
): MonthOfRequests {
  const keyDays = keys * MONTH_DAYS;
  const withKey = sentPerDay(mean) * keyDays;
  const unauthorized = withKey * assumptions.unauthorizedShare;
  const total = withKey + unauthorized;
  const perSecond = total / MONTH_SECONDS;
  const cancellations = mean.cancellations * keyDays;
  const ordersPlaced = orders * assumptions.orderChangesPerDay * MONTH_DAYS;
  return {
    total,
    perSecond,
    perSecondAtPeak: perSecond * peakFactor,
    lists: mean.admitted * keyDays - cancellations,
    cancellations,
    cancelled: Math.min(cancellations, ordersPlaced),
    refusedByObject: mean.refusedByObject * keyDays,
    refusedFromMemory: mean.refusedFromMemory * keyDays,
    unauthorized,
    ordersPlaced,
  };
}
