import * as fc from "fast-check";
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
  pacer.end(pacer.begin(), announced(...announcement), 0);
  return pacer;
}

const answer = fc.tuple(fc.nat(10), fc.nat(60), fc.option(fc.nat(90)));

test("a response to a request that was sent after all others decides alone", () => {
  fc.assert(
    fc.property(fc.array(answer, { maxLength: 8 }), answer, fc.nat(30_000), (earlier, last, ms) => {
      const pacer = new Pacer();
      const tickets = earlier.map(() => pacer.begin());
      for (const [index, ticket] of tickets.entries()) {
        pacer.end(ticket, announced(...earlier[index]!), index);
      }
      pacer.end(pacer.begin(), announced(...last), 100);
      const fresh = new Pacer();
      fresh.end(fresh.begin(), announced(...last), 100);
      expect(pacer.waitMs(ms + 100)).toBe(fresh.waitMs(ms + 100));
      expect(pacer.forecast(25, ms + 100)).toEqual(fresh.forecast(25, ms + 100));
    }),
  );
});

test("of responses to requests at the same time, the cautious values count in any sequence", () => {
  const remaining = fc.array(fc.nat(10), { minLength: 1, maxLength: 8 });
  fc.assert(
    fc.property(remaining, fc.array(fc.option(fc.nat(90)), { minLength: 8 }), (counts, holds) => {
      const pacer = new Pacer();
      const tickets = counts.map(() => pacer.begin());
      for (const [index, ticket] of tickets.entries()) {
        pacer.end(ticket, announced(counts[index]!, 60, holds[index]!), 0);
      }
      const heldMs = Math.max(...counts.map((_, index) => (holds[index] ?? 0) * 1_000));
      const isFull = Math.min(...counts) === 0;
      expect(pacer.waitMs(0)).toBe(heldMs || (isFull ? MINUTE_MS : 0));
    }),
  );
});

test("a response about an earlier window does not change the current window", () => {
  const pacer = pacerAfter(5);
  const [first, second] = [pacer.begin(), pacer.begin()];
  pacer.end(first, announced(9), MINUTE_MS + 1);
  pacer.end(second, announced(0, 1), MINUTE_MS + 2);
  expect(pacer.waitMs(MINUTE_MS + 3)).toBe(0);
});

test("a lost request may have been counted, but takes no full window below zero", () => {
  const lost = { windows: [], retryAfterSeconds: null };
  for (const remaining of [0, 1]) {
    const pacer = pacerAfter(remaining);
    pacer.end(pacer.begin(), lost, 1_000);
    expect(pacer.waitMs(2_000)).toBe(MINUTE_MS - 2_000);
  }
  const pacer = pacerAfter(2);
  const [answered, unanswered] = [pacer.begin(), pacer.begin()];
  pacer.end(unanswered, lost, 1_000);
  pacer.end(answered, announced(1, 59), 1_000);
  expect(pacer.waitMs(2_000)).toBe(0);
  pacer.end(pacer.begin(), lost, 2_000);
  expect(pacer.waitMs(3_000)).toBe(MINUTE_MS - 3_000);
});

test("a forecast is of the limit that ends later, and an ended window gives way to a full one", () => {
  const pacer = new Pacer();
  const [minute] = announced(0).windows;
  const windows = [minute!, { ...minute!, name: "day", resetSeconds: 10 }];
  pacer.end(pacer.begin(), { windows, retryAfterSeconds: null }, 0);
  expect(pacer.forecast(1, 0)).toEqual({ waitMs: MINUTE_MS, lastRequests: 1 });
  const later = pacerAfter(3).forecast(13, 2 * MINUTE_MS);
  expect(later).toEqual({ waitMs: MINUTE_MS, lastRequests: 3 });
});

test("the average time of a response follows the latest, and counts no lost request", () => {
  const gate = new Gate();
  for (let sent = 0; sent < 160; sent += 1) {
    gate.leave(gate.pacer.begin(), new Response(), sent < 100 ? 1_000 : 0);
  }
  gate.leave(gate.pacer.begin(), undefined, 30_000);
  expect(gate.responseMs).toBeLessThan(100);
});
