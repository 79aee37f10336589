import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Outage } from "../../../src/worker/outage.ts";
import { eventLines, startListening } from "../../support/written-lines.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"] }));
afterEach(() => void vi.useRealTimers());

test("an outage is logged once when it begins, and once after ten seconds without failures", () => {
  startListening();
  const outage = new Outage({ began: "failing", ended: "working" });
  const pass = (ms: number) => void vi.setSystemTime(Date.now() + ms);
  const began = { event: "failing", requestId: "a" };
  outage.answered();
  outage.failed({ requestId: "a" });
  for (let n = 0; n < 3; n += 1) {
    pass(9_999);
    outage.answered();
    outage.failed({ requestId: "b" });
  }
  expect(eventLines()).toStrictEqual([began]);
  pass(-1); // The clock is set back, so the length of the quiet time is unknown.
  outage.answered();
  pass(10_001);
  outage.answered();
  outage.answered();
  const ended = { event: "working", failures: 4, seconds: 30 };
  expect(eventLines()).toStrictEqual([began, ended]);
  outage.failed({ requestId: "a" });
  pass(10_000);
  outage.answered();
  expect(eventLines().slice(2)).toStrictEqual([began, { ...ended, failures: 1, seconds: 0 }]);
});
