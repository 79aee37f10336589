import type { BreakingPoint } from "./breaking-points.ts";
import type { Basis, Scale } from "./basis.ts";
import type { Estimate } from "./estimate.ts";

/** All that `npm run capacity` says. */
export interface CapacityReport extends Basis {
  readonly scales: readonly Estimate[];
  /** The scale from which on the keys grow, or the orders. */
  readonly smallest: Scale;
  readonly asKeysGrow: readonly BreakingPoint[];
  readonly asOrdersGrow: readonly BreakingPoint[];
}
