import type { Assumptions } from "./assumptions.ts";
import type { Measured } from "./measured/measure.ts";
import type { Traffic } from "./traffic/traffic.ts";

/** A year's twelfth. */
export const MONTH_DAYS = 365 / 12;
export const MONTH_SECONDS = MONTH_DAYS * 86_400;

/** How large the service is. */
export interface Scale {
  readonly keys: number;
  /** Orders stored. */
  readonly orders: number;
}

/** What the estimates of all scales have in common. */
export interface Basis {
  readonly traffic: Traffic;
  readonly measured: Measured;
  readonly assumptions: Assumptions;
}
