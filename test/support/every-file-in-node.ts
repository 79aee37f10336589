import fc from "fast-check";
import { afterAll, vi } from "vitest";

/** The global property that holds what test files replace, saved before the first one does. */
const REAL = Symbol.for("real globals");
const shared = globalThis as { [REAL]?: object };
const timers = { setTimeout, clearTimeout, setInterval, clearInterval, setImmediate };
shared[REAL] ??= { ...timers, fetch };

// A fixed seed makes the results repeatable. `SEED=2 npm test -- core` tests other random cases.
fc.configureGlobal({ seed: Number(process.env["SEED"] ?? 1) });

// The output of commands must not depend on the environment of the tests.
delete process.env["NO_COLOR"];
delete process.env["FORCE_COLOR"];

// Files share a process, so what one replaced is undone, also before the next: a failed hook skips
// those after it. Spies go first, because removing one on a fake timer reinstalls the fake timer.
restore();
afterAll(restore);
function restore(): void {
  vi.restoreAllMocks();
  vi.useRealTimers();
  vi.unstubAllGlobals();
  vi.unstubAllEnvs();
  Object.assign(globalThis, shared[REAL]);
}
