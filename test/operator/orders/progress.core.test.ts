import { PassThrough } from "node:stream";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { startProgress, type Task } from "../../../src/operator/orders/progress.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** Returns the progress output of a task that advances by `step` each second. */
function written(task: Task, { step, seconds, ...terminal }: Record<string, any>): string {
  const stream = Object.assign(new PassThrough({ encoding: "utf8" }), terminal);
  const progress = startProgress(task, stream);
  for (let second = 0; second < seconds; second += 1) {
    progress.advance(step);
    vi.advanceTimersByTime(1_000);
  }
  progress[Symbol.dispose]();
  const text = String(stream.read() ?? "");
  vi.advanceTimersByTime(60_000);
  expect(stream.read(), "written after the end").toBeNull();
  return text;
}

describe("the progress of a long task", () => {
  const orders: Task = { doing: "Sending", unit: "orders", total: 40_000 };

  it("is a line every ten seconds without a terminal", () => {
    expect(written(orders, { isTTY: false, step: 1_000, seconds: 25 })).toBe(
      "Sending: 10,000 of 40,000 orders, 10 s\nSending: 20,000 of 40,000 orders, 20 s\n",
    );
    const bytes: Task = { doing: "Reading", unit: "MB", total: undefined };
    expect(written(bytes, { isTTY: false, step: 250_000, seconds: 10 })).toBe(
      "Reading: 2.5 MB, 10 s\n",
    );
    expect(written({ doing: "Placing" }, { isTTY: false, step: 0, seconds: 10 })).toBe(
      "Placing: 10 s\n",
    );
  });

  it("is nothing for a quick task without a terminal", () => {
    expect(written(orders, { isTTY: undefined, step: 4_000, seconds: 9 })).toBe("");
  });

  it("is a bar with the remaining time on a terminal", () => {
    const text = written(orders, { isTTY: true, columns: 80, step: 1_000, seconds: 20 });
    expect(text).toMatch(/Sending \[=+-+\] 25% {2}10,000 of 40,000 orders {2}30 s left/);
    const none = { ...orders, total: 0 };
    expect(written(none, { isTTY: true, step: 0, seconds: 1 })).toContain("] 100%  0 of 0 orders");
    const bytes: Task = { doing: "Reading", unit: "MB", total: undefined };
    // Some terminals report a width of 0.
    expect(written(bytes, { isTTY: true, columns: 0, step: 1_000_000, seconds: 3 })).toContain(
      "Reading  3.0 MB  ",
    );
    expect(written({ doing: "Placing" }, { isTTY: true, step: 0, seconds: 3 })).toBe(
      "Placing ...\n",
    );
  });
});
