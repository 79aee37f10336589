import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { startProgress } from "../../../src/operator/orders/progress.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** Returns the progress output of a task that advances by `step` each second. */
function written(task: Parameters<typeof startProgress>[0], step: number, seconds: number): string {
  let text = "";
  vi.spyOn(process.stderr, "write").mockImplementation((part) => Boolean((text += String(part))));
  const progress = startProgress(task);
  for (let second = 0; second < seconds; second += 1) {
    progress.advance(step);
    vi.advanceTimersByTime(1_000);
  }
  progress[Symbol.dispose]();
  vi.advanceTimersByTime(60_000);
  return text;
}

it("the progress of a long task is a line every ten seconds, until it ends", () => {
  const orders = { doing: "Sending", unit: "orders", total: 40_000 } as const;
  expect(written(orders, 1_000, 25)).toBe(
    "Sending: 10,000 of 40,000 orders, 10 s\nSending: 20,000 of 40,000 orders, 20 s\n",
  );
  expect(written({ doing: "Reading", unit: "MB" }, 250_000, 10)).toBe("Reading: 2.5 MB, 10 s\n");
  expect(written({ doing: "Placing" }, 0, 10)).toBe("Placing: 10 s\n");
  expect(written(orders, 4_000, 9), "a quick task").toBe("");
});
