/** The length of each window in seconds (contract, section 4). */
export const WINDOW_SECONDS = { minute: 60, day: 86_400 } as const;

export type WindowName = keyof typeof WINDOW_SECONDS;

/** A window that a request has opened. */
export interface Window {
  /** Unix time in milliseconds of the first request counted. */
  readonly openedMs: number;
  /** Requests admitted since, at least 1. */
  readonly count: number;
}

/** When a window ends, in Unix milliseconds: exactly its length after it opened. */
export function windowEndMs(name: WindowName, window: Window): number {
  return window.openedMs + WINDOW_SECONDS[name] * 1_000;
}

/**
 * The window as it stands at `nowMs`: the stored one while it is open, otherwise an empty one that
 * opens now. Where the clock has gone back behind its opening, it opens now with its count kept, so
 * that a clock can neither admit more than the limit nor keep anyone waiting beyond the length.
 */
export function windowAt(name: WindowName, stored: Window | null, nowMs: number): Window {
  if (stored === null || nowMs >= windowEndMs(name, stored)) return { openedMs: nowMs, count: 0 };
  return stored.openedMs > nowMs ? { openedMs: nowMs, count: stored.count } : stored;
}
