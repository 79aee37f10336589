import { expect, test, vi } from "vitest";
import { Outage } from "../../../src/worker/outage.ts";
import { eventLines, startListening } from "../../support/written-lines.ts";

test("an outage is logged once when it begins, and once after ten seconds without failures", () => {
  vi.useFakeTimers({ toFake: ["Date"] });
  startListening();
  const outage = new Outage({ began: "failing", ended: "working" });
  const answeredAfter = (ms: number) => {
    vi.setSystemTime(Date.now() + ms);
    outage.answered();
  };
  answeredAfter(0);
  outage.failed({ requestId: "a" });
  for (let n = 0; n < 3; n += 1) {
    answeredAfter(9_999);
    outage.failed({ requestId: "b" });
  }
  const began = { event: "failing", requestId: "a" };
  expect(eventLines()).toStrictEqual([began]);
  // The clock is set back, so the length of the quiet time is unknown.
  for (const ms of [-1, 10_001, 0]) answeredAfter(ms);
  outage.failed({ requestId: "a" });
  answeredAfter(10_000);
  const ended = { event: "working", failures: 4, seconds: 30 };
  expect(eventLines()).toStrictEqual([began, ended, began, { ...ended, failures: 1, seconds: 0 }]);
});
