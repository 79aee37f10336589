import { expect, test, vi } from "vitest";
import { isWithin, withDeadline } from "../../src/worker/deadline.ts";

test("a deadline says how long it was, and no timer stays when the promise has settled", async () => {
  vi.useFakeTimers();
  await expect(withDeadline(Promise.reject(new Error("own")), 100)).rejects.toThrow("own");
  expect(await withDeadline(Promise.resolve(1), 100)).toBe(1);
  expect(vi.getTimerCount()).toBe(0);
  const late = withDeadline(new Promise(() => undefined), 100).catch(String);
  await vi.advanceTimersByTimeAsync(100);
  expect(await late).toBe("Error: timed out after 100 ms");
});

test("a time is within a second from then on, but not while the clock is set back to before it", () => {
  const within = [-1, 0, 999, 1_000].filter((ms) => isWithin(1_000, 5_000, 5_000 + ms));
  expect(within).toEqual([0, 999]);
});
