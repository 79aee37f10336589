import { afterEach, expect, test, vi } from "vitest";
import { callObject } from "../../../src/worker/limiter/object-call.ts";
import { pause } from "../../../src/worker/deadline.ts";

afterEach(() => void vi.useRealTimers());

test("a Durable Object is not called again after the time-out, even during the pause between attempts", async () => {
  vi.useFakeTimers();
  let calls = 0;
  const call = callObject(
    { getByName: () => ({}) } as never,
    { name: "key" } as never,
    100,
    async () => {
      calls += 1;
      await pause(99);
      throw Object.assign(new Error("lost"), { retryable: true });
    },
  );
  const failed = expect(call).rejects.toThrow("timed out after 100 ms");
  await vi.advanceTimersByTimeAsync(10_000);
  await failed;
  expect(calls).toBe(1);
});
