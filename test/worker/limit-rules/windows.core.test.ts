import { describe, expect, test } from "vitest";
import { WINDOW_SECONDS } from "../../../src/worker/limit-rules/windows.ts";
import { DAY_MS, keyPolicy, MINUTE_MS, SimulatedLimiter, START_MS } from "./simulated-limiter.ts";

const LIMIT = 1_000_000;

describe("windows (docs/limits.md, Windows)", () => {
  test("last 60 seconds and 86,400 seconds", () => {
    expect(WINDOW_SECONDS).toEqual({ minute: 60, day: 86_400 });
  });

  test.for([
    ["minute", MINUTE_MS],
    ["day", DAY_MS],
  ] as const)(
    "a %s opens with its first request and ends exactly its length later",
    ([name, lengthMs]) => {
      const limiter = new SimulatedLimiter(keyPolicy(LIMIT, LIMIT));
      const openedMs = 12_345;
      const table = [
        { at: openedMs, left: LIMIT - 1, ends: openedMs + lengthMs },
        { at: openedMs, left: LIMIT - 2, ends: openedMs + lengthMs },
        { at: openedMs + lengthMs - 1, left: LIMIT - 3, ends: openedMs + lengthMs },
        { at: openedMs + lengthMs, left: LIMIT - 1, ends: openedMs + 2 * lengthMs },
        { at: openedMs + 2 * lengthMs - 1, left: LIMIT - 2, ends: openedMs + 2 * lengthMs },
        { at: openedMs + 5 * lengthMs + 7, left: LIMIT - 1, ends: openedMs + 6 * lengthMs + 7 },
      ];
      for (const { at, left, ends } of table) {
        const window = limiter.at(at).request()[name];
        expect(window, `at ${at} ms`).toEqual({
          limit: LIMIT,
          remaining: left,
          endsMs: START_MS + ends,
        });
      }
    },
  );

  test("a window that is not open is described as if it opened now", () => {
    const limiter = new SimulatedLimiter(keyPolicy(60, 1_000));
    const untouched = (offsetMs: number) => ({
      minute: { limit: 60, remaining: 60, endsMs: START_MS + offsetMs + MINUTE_MS },
      retryAtMs: null,
    });
    expect(limiter.at(5).peek()).toMatchObject(untouched(5));
    limiter.request();
    expect(limiter.at(5 + MINUTE_MS).peek()).toMatchObject(untouched(5 + MINUTE_MS));
    expect(limiter.at(5 + DAY_MS).peek()).toEqual({
      nowMs: START_MS + 5 + DAY_MS,
      minute: { limit: 60, remaining: 60, endsMs: START_MS + 5 + DAY_MS + MINUTE_MS },
      day: { limit: 1_000, remaining: 1_000, endsMs: START_MS + 5 + 2 * DAY_MS },
      retryAtMs: null,
      banned: false,
    });
  });

  test("a peek opens no window", () => {
    const limiter = new SimulatedLimiter(keyPolicy(60, 1_000));
    limiter.peek();
    expect(limiter.at(30_000).request().minute.endsMs).toBe(START_MS + 30_000 + MINUTE_MS);
  });

  test("up to twice the limit is admitted around the end of a window", () => {
    const limiter = new SimulatedLimiter(keyPolicy(60, 1_000));
    const admitted = [
      limiter.request(),
      ...limiter.at(MINUTE_MS - 1).requests(59),
      ...limiter.at(MINUTE_MS).requests(60),
    ].filter((decision) => decision.admitted);
    expect(admitted).toHaveLength(120);
    expect(limiter.request().admitted).toBe(false);
  });
});
