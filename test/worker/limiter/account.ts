import type { QuotaPolicy } from "../../../src/worker/limit-rules/decision.ts";
import type { LimiterState } from "../../../src/worker/limit-rules/decision.ts";

interface OpenWindow {
  readonly openedMs: number;
  readonly count: number;
}

/** A simple model of a key's minute and day windows (docs/limits.md, Windows). Ignores bans. */
export class Account {
  #policy: QuotaPolicy | null = null;
  #minute: OpenWindow | null = null;
  #day: OpenWindow | null = null;

  /** Continues from a stored limiter state. */
  restore(stored: LimiterState | null): void {
    this.#policy = stored && { ...stored, bans: true };
    this.#minute = stored && stored.minute;
    this.#day = stored && stored.day;
  }

  /** Returns whether a request with this policy must be admitted, unless the key is banned. */
  hasRoom(policy: QuotaPolicy, nowMs: number): boolean {
    const known = this.#policy ?? policy;
    if (policy.resets > known.resets) this.#minute = this.#day = null;
    this.#policy = policy.revision >= known.revision ? policy : known;
    this.#minute = openAt(this.#minute, 60_000, nowMs);
    this.#day = openAt(this.#day, 86_400_000, nowMs);
    const { perMinute, perDay } = this.#policy.limits;
    return (this.#minute?.count ?? 0) < perMinute && (this.#day?.count ?? 0) < perDay;
  }

  admit(nowMs: number): void {
    this.#minute = { openedMs: nowMs, count: 0, ...this.#minute };
    this.#day = { openedMs: nowMs, count: 0, ...this.#day };
    this.#minute = { ...this.#minute, count: this.#minute.count + 1 };
    this.#day = { ...this.#day, count: this.#day.count + 1 };
  }
}

/** Returns the window at `nowMs`. A clock that was set back restarts it with its count. */
function openAt(window: OpenWindow | null, lengthMs: number, nowMs: number): OpenWindow | null {
  if (window === null || nowMs >= window.openedMs + lengthMs) return null;
  return { ...window, openedMs: Math.min(window.openedMs, nowMs) };
}
