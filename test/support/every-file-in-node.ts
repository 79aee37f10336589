import fc from "fast-check";
import { afterAll, vi } from "vitest";

/** The global property that holds the process's timers, saved before any test file fakes them. */
const REAL_TIMERS = Symbol.for("real timers");
const shared = globalThis as { [REAL_TIMERS]?: object };
shared[REAL_TIMERS] ??= { setTimeout, clearTimeout, setInterval, clearInterval, setImmediate };

// A fixed seed makes the results repeatable. `SEED=2 npm test -- core` tests other random cases.
fc.configureGlobal({ seed: Number(process.env["SEED"] ?? 1) });

// The output of commands must not depend on the environment of the tests.
delete process.env["NO_COLOR"];
delete process.env["FORCE_COLOR"];

// One process runs many test files one after another, so each file must undo what it replaced.
// Removing a spy on a fake timer reinstalls the fake timer. Spies are therefore removed first, and
// the real timers are also restored from the saved copy.
afterAll(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
  Object.assign(globalThis, shared[REAL_TIMERS]);
  vi.unstubAllGlobals();
  vi.unstubAllEnvs();
});
