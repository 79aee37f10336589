import { expect, test } from "vitest";
import { Gate, Pacer } from "../../src/client/pacer.ts";

const MINUTE_MS = 60_000;

/** Returns the parsed headers of a response, for a window of ten requests a minute. */
function announced(remaining: number, resetSeconds = 60, retryAfterSeconds: number | null = null) {
  const window = { name: "minute", limit: 10, lengthSeconds: 60, remaining, resetSeconds };
  return { windows: [window], retryAfterSeconds };
}

/** Returns a pacer that received one response at 0 ms and has no request in flight. */
function pacerAfter(...announcement: Parameters<typeof announced>): Pacer {
  const pacer = new Pacer();
  pacer.begin();
  pacer.end(announced(...announcement), 0);
  return pacer;
}

test("a response about an earlier window does not change the current window", () => {
  const pacer = pacerAfter(5);
  pacer.begin();
  pacer.begin();
  pacer.end(announced(9), MINUTE_MS + 1);
  pacer.end(announced(0, 1), MINUTE_MS + 2);
  expect(pacer.waitMs(MINUTE_MS + 3)).toBe(0);
});

test("of two responses about a window, the earlier end counts, until the window has ended", () => {
  const pacer = pacerAfter(0);
  for (let request = 0; request < 2; request += 1) pacer.begin();
  pacer.end(announced(0), 900);
  expect(pacer.waitMs(1_000)).toBe(MINUTE_MS - 1_000);
  pacer.end(announced(5, 29), MINUTE_MS + 1);
  pacer.begin();
  expect(pacer.waitMs(MINUTE_MS + 2)).toBe(0);
});

test("no request is sent before the latest Retry-After, even if the window has room", () => {
  const pacer = pacerAfter(5, 60, 10);
  pacer.begin();
  pacer.end(announced(5, 60, 1), 0);
  expect(pacer.forecast(1, 0)).toEqual({ waitMs: 10_000, lastRequests: 1 });
  expect(pacer.waitMs(9_999)).toBe(1);
  expect(pacer.waitMs(10_000)).toBe(0);
});

test("a request without a response does not take a full window below zero", () => {
  const pacer = pacerAfter(0);
  pacer.begin();
  pacer.end({ windows: [], retryAfterSeconds: null }, 1_000);
  expect(pacer.waitMs(2_000)).toBe(MINUTE_MS - 2_000);
});

test("of two full windows, the forecast is of the one that ends later", () => {
  const pacer = pacerAfter(0);
  const [minute] = announced(0, 10).windows;
  pacer.end({ windows: [{ ...minute!, name: "day" }], retryAfterSeconds: null }, 0);
  expect(pacer.forecast(1, 0)).toEqual({ waitMs: MINUTE_MS, lastRequests: 1 });
});

test("the average time of a response follows the latest responses", () => {
  const gate = new Gate();
  for (let sent = 0; sent < 160; sent += 1) gate.leave(new Headers(), sent < 100 ? 1_000 : 0);
  // A request without a response does not change the average.
  gate.leave(null, 30_000);
  expect(gate.responseMs).toBeLessThan(100);
});

test.each([
  [3, 0, 0, 3],
  [4, 0, MINUTE_MS, 1],
  [13, 0, MINUTE_MS, 10],
  [14, 0, 2 * MINUTE_MS, 1],
  // The window has ended, so the next window has its full limit.
  [13, 2 * MINUTE_MS, MINUTE_MS, 3],
])(
  "with room for three, %d more requests at %d ms wait %d ms for the last window, which gets %d of them",
  (requests, nowMs, waitMs, lastRequests) => {
    expect(pacerAfter(3).forecast(requests, nowMs)).toEqual({ waitMs, lastRequests });
  },
);
