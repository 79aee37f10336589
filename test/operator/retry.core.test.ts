import { expect, it, vi } from "vitest";
import { retryWhileBusy } from "../../src/operator/retry.ts";

it("a lock is waited for during half a minute, and no other failure is retried", async () => {
  vi.useFakeTimers();
  for (const message of ["SQLITE_BUSY", "database is locked", "internal error; reference = a"]) {
    const locked = vi.fn(() => Promise.reject(new Error(message)));
    const failed = expect(retryWhileBusy(locked)).rejects.toThrow("for 30 seconds");
    await vi.advanceTimersByTimeAsync(29_000);
    const early = locked.mock.calls.length;
    expect(early).toBeGreaterThan(280);
    await vi.advanceTimersByTimeAsync(2_000);
    await failed;
    expect(locked.mock.calls.length).toBeGreaterThan(early);
  }
  const missing = vi.fn(() => Promise.reject(new Error("no such table")));
  await expect(retryWhileBusy(missing)).rejects.toThrow("no such table");
  expect(missing).toHaveBeenCalledTimes(1);
});
