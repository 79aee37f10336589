import { afterAll, vi } from "vitest";

// One process runs many test files of pure code one after another, so each file must restore the
// real clock and remove its spies. Remove the spies first: a spy on a fake timer would otherwise
// reinstall the fake timer.
afterAll(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});
