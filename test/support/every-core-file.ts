import { afterAll, vi } from "vitest";

// A process runs many files of pure code one after the other, so no file leaves its clock or its
// spies behind. The spies go first: one on a timer of a stopped clock would bring that timer back.
afterAll(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});
