import type { Assumptions } from "./assumptions.ts";
import { estimate } from "./estimate.ts";
import type { Scale } from "./requests.ts";

/** The largest scale that is tried. */
export const LARGEST_SCALE = 1e12;

export type BreakingPoint = ReturnType<typeof breakingPoints>[number];

/**
 * Finds the limits that break while one number grows and the other stays, the first one first, and
 * the number from which each is broken.
 */
export function breakingPoints(growing: keyof Scale, start: Scale, assumptions: Assumptions) {
  const limitsAt = (scale: number) => estimate({ ...start, [growing]: scale }, assumptions).limits;
  return limitsAt(1)
    .map(({ name }) => ({
      name,
      from: firstBroken((scale) =>
        limitsAt(scale).some((limit) => limit.name === name && limit.share > 1),
      ),
    }))
    .filter(({ from }) => from < LARGEST_SCALE)
    .toSorted((one, other) => one.from - other.from);
}

/** Finds the least broken scale by bisection, within 1 %. */
function firstBroken(isBroken: (scale: number) => boolean): number {
  let intact = 1;
  let broken = LARGEST_SCALE;
  while (broken / intact > 1.01) {
    const middle = Math.sqrt(intact * broken);
    if (isBroken(middle)) broken = middle;
    else intact = middle;
  }
  return broken;
}
