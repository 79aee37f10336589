import type { Quota } from "./decision.ts";
import type { LimiterState } from "./limiter-state.ts";
import { limitOf } from "./plans.ts";
import { WINDOW_NAMES, windowEndMs, type WindowName } from "./windows.ts";

/** A window that is nearly used up, as the log describes it. */
interface LowWindow {
  readonly window: WindowName;
  readonly limit: number;
  readonly remaining: number;
  readonly resetsAt: string;
}

/** The share of a limit from which a key counts as near the limit. */
export const NEAR_LIMIT = 0.8;

/**
 * Describes the windows that one decision has brought near their limits, for the log. So a window is
 * returned once, and again only if its limit was raised meanwhile.
 *
 * @param before the limiter state before the decision; `null` for the first.
 * @param quota the quota after the decision.
 */
export function newlyNearLimit(before: LimiterState | null, quota: Quota): readonly LowWindow[] {
  return WINDOW_NAMES.filter((name) => {
    const { limit, remaining, endsMs } = quota[name];
    if (!isNear(limit - remaining, limit)) return false;
    const window = before?.[name];
    if (!before || !window || windowEndMs(name, window) !== endsMs) return true;
    return !isNear(window.count, limitOf(before.limits, name));
  }).map((window) => {
    const { limit, remaining, endsMs } = quota[window];
    return { window, limit, remaining, resetsAt: new Date(endsMs).toISOString() };
  });
}

function isNear(count: number, limit: number): boolean {
  return count / limit >= NEAR_LIMIT;
}
