import type { Ban, BanPolicy, Wait } from "./bans.ts";
import type { Limits } from "./plans.ts";
import type { PerWindow, Window } from "./windows.ts";
import { mapWindows, WINDOW_NAMES, windowEndMs } from "./windows.ts";

/** The rules that a limiter applies to the requests of a key or an address. */
export interface QuotaPolicy {
  readonly limits: Limits;
  /**
   * Increases with every change of the key. The limiter ignores limits of an earlier revision. It
   * applies new limits of the same revision, because a deployment can change the limits of a plan.
   */
  readonly revision: number;
  /** How often the key was reset. When this number has increased, the limiter empties its state. */
  readonly resets: number;
}

/** Everything that a limiter remembers of a key or an address. */
export interface LimiterState extends PerWindow<Window | null> {
  readonly limits: Limits;
  readonly revision: number;
  readonly resets: number;
  readonly ban: Ban | null;
  /** Not stored on disk, so a restart of the Durable Object loses it. */
  readonly wait: Wait | null;
}

/** Returns the limiter state under `policy`: empty if `stored` is `null` or the key was reset. */
export function stateUnder(stored: LimiterState | null, policy: QuotaPolicy): LimiterState {
  const { limits, revision, resets } = policy;
  if (stored === null || resets > stored.resets) {
    return { limits, revision, resets, ...mapWindows(() => null), ban: null, wait: null };
  }
  return revision < stored.revision ? stored : { ...stored, limits, revision };
}

/**
 * Corrects times in the state that lie in the future because the clock was set back. A window then
 * opens at `nowMs` and keeps its count; a ban is over and keeps its number. So no client waits longer
 * than its window or ban is long.
 */
export function stateAt(state: LimiterState, nowMs: number): LimiterState {
  const notAhead = (window: Window | null) =>
    window !== null && window.openedMs > nowMs ? { ...window, openedMs: nowMs } : window;
  const { ban, wait } = state;
  return {
    ...state,
    ...mapWindows((name) => notAhead(state[name])),
    ban: ban !== null && ban.beganMs > nowMs ? { ...ban, beganMs: nowMs, untilMs: nowMs } : ban,
    wait: wait && {
      ...wait,
      startedMs: Math.min(wait.startedMs, nowMs),
      firstStrikeMs: Math.min(wait.firstStrikeMs, nowMs),
    },
  };
}

/** Returns the Unix time in milliseconds from which the state has the effect of an empty one. */
export function stateEndMs(state: LimiterState, banPolicy: BanPolicy): number {
  const banEndMs = state.ban === null ? 0 : state.ban.untilMs + banPolicy.forgetAfterMs;
  return Math.max(banEndMs, ...WINDOW_NAMES.map((name) => windowEndMs(name, state[name])));
}
