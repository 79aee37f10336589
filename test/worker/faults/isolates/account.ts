import type { QuotaPolicy } from "../../../../src/worker/limits/decision.ts";

interface OpenWindow {
  readonly openedMs: number;
  readonly count: number;
}

/** A simple model of a key's minute and day windows (docs/limits.md, Windows). Ignores bans. */
export class Account {
  #policy: QuotaPolicy | null = null;
  #minute: OpenWindow | null = null;
  #day: OpenWindow | null = null;

  /** Returns whether a request with this policy must be admitted, unless the key is banned. */
  hasRoom(policy: QuotaPolicy, nowMs: number): boolean {
    const known = this.#policy ?? policy;
    if (policy.resets > known.resets) this.#minute = this.#day = null;
    this.#policy = policy.revision >= known.revision ? policy : known;
    const { perMinute, perDay } = this.#policy.limits;
    return (
      openAt(this.#minute, 60_000, nowMs).count < perMinute &&
      openAt(this.#day, 86_400_000, nowMs).count < perDay
    );
  }

  admit(nowMs: number): void {
    this.#minute = countIn(openAt(this.#minute, 60_000, nowMs));
    this.#day = countIn(openAt(this.#day, 86_400_000, nowMs));
  }
}

function openAt(window: OpenWindow | null, lengthMs: number, nowMs: number): OpenWindow {
  if (window !== null && nowMs < window.openedMs + lengthMs) return window;
  return { openedMs: nowMs, count: 0 };
}

function countIn({ openedMs, count }: OpenWindow): OpenWindow {
  return { openedMs, count: count + 1 };
}
