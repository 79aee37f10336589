import { expect, test, vi } from "vitest";
import { Gate, Pacer } from "../../src/client/pacer.ts";

/** The headers of a response, for a window of ten requests a minute. */
function heard(remaining: number, resetSeconds = 60, retryAfterSeconds: number | null = null) {
  const window = { name: "minute", limit: 10, lengthSeconds: 60, remaining, resetSeconds };
  return { windows: [window], retryAfterSeconds };
}

const LOST = { windows: [], retryAfterSeconds: null };

/** Returns a pacer after rounds of concurrent requests, one round a second from 0 ms. */
function pacerAfter(rounds: readonly (readonly (typeof LOST | ReturnType<typeof heard>)[])[]) {
  const pacer = new Pacer();
  for (const [second, round] of rounds.entries()) {
    const tickets = round.map(() => pacer.begin());
    round.forEach((answer, index) => pacer.end(tickets[index]!, answer, second * 1_000));
  }
  return pacer;
}

test.each([
  ["the newest response decides", [[heard(0, 60, 90)], [heard(9)]], 0],
  ["of concurrent responses, the fewest left", [[heard(9), heard(0), heard(5)]], 59_000],
  ["of concurrent responses, the longest hold", [[heard(9, 60, 30), heard(9, 60, 20)]], 29_000],
  ["of concurrent responses, the earliest end", [[heard(0, 60), heard(0, 50)]], 49_000],
  ["a response about an earlier window comes late", [[heard(9), heard(0, 1)]], 0],
  ["a response about a later window comes early", [[heard(0, 2), heard(9)]], 0],
  ["a lost request may have been counted", [[heard(1)], [LOST]], 59_000],
  ["a lost request takes no full window below zero", [[heard(0)], [LOST]], 59_000],
  ["a lost request ends no hold", [[heard(9, 60, 30)], [LOST]], 29_000],
])("%s", (_, rounds, waitMs) => {
  expect(pacerAfter(rounds).waitMs(1_000)).toBe(waitMs);
});

test("a forecast counts what is left of the open window, or new windows after its end", () => {
  const pacer = pacerAfter([[heard(3)]]);
  expect(pacer.forecast(13, 0)).toEqual({ waitMs: 60_000, lastRequests: 10 });
  expect(pacer.forecast(13, 120_000)).toEqual({ waitMs: 60_000, lastRequests: 3 });
  const day = { name: "day", limit: 20, lengthSeconds: 86_400, remaining: 4, resetSeconds: 90 };
  const both = { windows: [day, ...heard(3).windows], retryAfterSeconds: null };
  expect(pacerAfter([[both]]).forecast(13, 0)).toEqual({ waitMs: 90_000, lastRequests: 9 });
  const held = pacerAfter([[heard(9, 60, 30)]]);
  expect(held.forecast(2, 1_000)).toEqual({ waitMs: 29_000, lastRequests: 2 });
});

test("a look takes no room from other requests, whether it is answered or not, and does not outdo what they have just heard", () => {
  const pacer = pacerAfter([[heard(1)]]);
  pacer.look({ ...LOST, retryAfterSeconds: 5 }, 0, 10);
  expect(pacer.waitMs(10)).toBe(0);
  pacer.end(pacer.begin(), heard(0, 60, 90), 20);
  // The service may have known this before the last request.
  pacer.look(heard(3), 1_019, 1_019);
  expect(pacer.waitMs(1_019)).toBeGreaterThan(0);
  pacer.look(heard(3), 1_020, 1_030);
  expect(pacer.waitMs(1_030)).toBe(0);
});

test("a wait that is aborted leaves no timer, so that the process can end", async () => {
  vi.useFakeTimers();
  const gate = new Gate();
  gate.pacer.end(gate.pacer.begin(), heard(9, 60, 86_400), performance.now());
  const abort = new AbortController();
  const waiting = gate.enter(true, abort.signal);
  abort.abort("enough");
  await expect(waiting).rejects.toBe("enough");
  expect(vi.getTimerCount()).toBe(0);
});
