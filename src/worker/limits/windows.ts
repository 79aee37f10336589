/**
 * The length of each window in seconds (docs/limits.md, Windows). A further window begins with an
 * entry here. The compiler then names the other places: its value, its limit, its stored fields.
 */
export const WINDOW_SECONDS = {
  minute: 60,
  day: 86_400,
} as const;

export type WindowName = keyof typeof WINDOW_SECONDS;

/** The windows in the order in which the headers list them. */
export const WINDOW_NAMES = Object.keys(WINDOW_SECONDS) as readonly WindowName[];

/** One value for each window. */
export type PerWindow<T> = Readonly<Record<WindowName, T>>;

/** Computes one value for each window. */
export function mapWindows<T>(valueOf: (name: WindowName) => T): PerWindow<T> {
  return {
    minute: valueOf("minute"),
    day: valueOf("day"),
  };
}

/** A window that a request has opened. */
export interface Window {
  /** Unix time in milliseconds of the first request counted. */
  readonly openedMs: number;
  /** Requests admitted since, at least 1. */
  readonly count: number;
}

/** Returns when a window ends, in Unix milliseconds: exactly its length after it opened. */
export function windowEndMs(name: WindowName, window: Window): number {
  return window.openedMs + WINDOW_SECONDS[name] * 1_000;
}

/**
 * Returns the stored window while it is open, otherwise an empty window that opens at `nowMs`.
 *
 * If the clock has gone back to before the window opened, the window opens at `nowMs` and keeps its
 * count. So a wrong clock neither admits more than the limit nor delays anyone by more than the length.
 */
export function windowAt(name: WindowName, stored: Window | null, nowMs: number): Window {
  if (stored === null || nowMs >= windowEndMs(name, stored)) return { openedMs: nowMs, count: 0 };
  return stored.openedMs > nowMs ? { openedMs: nowMs, count: stored.count } : stored;
}
