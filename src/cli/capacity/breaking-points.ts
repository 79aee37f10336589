import type { Basis, Scale } from "./basis.ts";
import { estimate } from "./estimate.ts";
import type { GrowingLimit } from "./platform-limits.ts";

/** Beyond this nothing is looked for. */
const LARGEST = 1e12;

/** From how many keys, or orders, on a limit is broken while the other stays as it is. */
export interface BreakingPoint {
  readonly name: GrowingLimit;
  readonly from: number;
}

/** The limits that break one after the other as the keys grow, or the orders. */
export function breakingPoints(growing: keyof Scale, start: Scale, basis: Basis): BreakingPoint[] {
  const names = estimate(start, basis).limits.map(({ name }) => name);
  return names
    .map((name) => ({ name, from: firstBroken(name, growing, start, basis) }))
    .filter(({ from }) => from < LARGEST)
    .toSorted((one, other) => one.from - other.from);
}

/** Halves the distance, as a ratio, until it is a hundredth. */
function firstBroken(name: GrowingLimit, growing: keyof Scale, start: Scale, basis: Basis): number {
  let whole = 1;
  let broken = LARGEST;
  while (broken / whole > 1.01) {
    const middle = Math.sqrt(whole * broken);
    const { limits } = estimate({ ...start, [growing]: middle }, basis);
    const isBroken = limits.some((limit) => limit.name === name && limit.share > 1);
    if (isBroken) broken = middle;
    else whole = middle;
  }
  return broken;
}
