import { DAY_SECONDS } from "../days.ts";

/** The length of each window in seconds (docs/limits.md, Windows). */
export const WINDOW_SECONDS = { minute: 60, day: DAY_SECONDS } as const;

export type WindowName = keyof typeof WINDOW_SECONDS;

/** The windows in the order in which the rate-limit headers list them. */
export const WINDOW_NAMES = Object.keys(WINDOW_SECONDS) as readonly WindowName[];

export type PerWindow<T> = Readonly<Record<WindowName, T>>;

export function mapWindows<T>(valueOf: (name: WindowName) => T): PerWindow<T> {
  return { minute: valueOf("minute"), day: valueOf("day") };
}

/** A window that a request has opened, or an empty window from `windowAt`. */
export interface Window {
  /** Unix time in milliseconds of the first request that the window counted. */
  readonly openedMs: number;
  /** The number of requests admitted in the window: 0 only in an empty window. */
  readonly count: number;
}

/** Returns the Unix time in milliseconds at which a window ends; 0 if there is no window. */
export function windowEndMs(name: WindowName, window: Window | null): number {
  return window === null ? 0 : window.openedMs + WINDOW_SECONDS[name] * 1_000;
}

/** Returns the stored window if it is open at `nowMs`, otherwise a new empty window. */
export function windowAt(name: WindowName, stored: Window | null, nowMs: number): Window {
  const isOpen = stored !== null && nowMs < windowEndMs(name, stored);
  return isOpen ? stored : { openedMs: nowMs, count: 0 };
}
