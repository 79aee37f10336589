import { afterAll, vi } from "vitest";

/** The timers of the process, saved before its first test file replaces any of them. */
const REAL_TIMERS = Symbol.for("real timers");
const shared = globalThis as { [REAL_TIMERS]?: object };
shared[REAL_TIMERS] ??= { setTimeout, clearTimeout, setInterval, clearInterval, setImmediate };

// One process runs many test files of pure code one after another, so each file must restore the
// real clock and remove its spies. Remove the spies first: a spy on a fake timer would otherwise
// reinstall the fake timer. If a test did both in the wrong order, the saved timers repair it.
afterAll(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
  Object.assign(globalThis, shared[REAL_TIMERS]);
});
