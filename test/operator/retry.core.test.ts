import { expect, it, onTestFinished, vi } from "vitest";
import { retryWhileBusy } from "../../src/operator/retry.ts";

it("a lock is waited for during half a minute", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const locked = vi.fn(() => Promise.reject(new Error("internal error; reference = a")));
  const failed = expect(retryWhileBusy(locked)).rejects.toThrow("for 30 seconds");
  await vi.advanceTimersByTimeAsync(29_000);
  const early = locked.mock.calls.length;
  await vi.advanceTimersByTimeAsync(2_000);
  await failed;
  expect(locked.mock.calls.length).toBeGreaterThan(early);
});
