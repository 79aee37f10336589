import fc from "fast-check";
import { afterAll, beforeEach, expect, test, vi } from "vitest";
import { DAY_MS } from "../../support/clock.ts";
import { expectCauses, startListening } from "../../support/written-lines.ts";
import { faultsIn, plan } from "./isolates/history.ts";
import { execute, openOrderDatabase } from "./isolates/order-database.ts";
import { play } from "./isolates/world.ts";

const database = openOrderDatabase();
const FAKED = ["Date", "setTimeout", "clearTimeout", "setInterval", "clearInterval"] as const;
beforeEach(() => void vi.useFakeTimers({ toFake: [...FAKED] }));
afterAll(() => database.close());

test("from any database, a list that has begun is finished, and no key takes the lists from another", async () => {
  const ends = new Set<string | null>();
  const property = fc.asyncProperty(plan, fc.scheduler(), async (planned, scheduler) => {
    vi.setSystemTime(0);
    execute(database, "BEGIN");
    startListening();
    try {
      const history = await play(database, scheduler, planned);
      expect(faultsIn(history)).toStrictEqual([]);
      expectCauses();
      for (const { end, events, begunMs, endedMs } of history.reads) {
        ends.add(events[0] ?? end);
        if (end === "whole" && endedMs - begunMs > DAY_MS) ends.add("whole after a day");
      }
    } finally {
      vi.clearAllTimers();
      vi.restoreAllMocks();
      execute(database, "ROLLBACK");
    }
  });
  await fc.assert(property, { numRuns: 800 });
  // Each kind of end must occur, so that it is tested.
  const kinds = ["whole", "whole after a day", "known", "head", "failed", "left"];
  const logged = ["lists_too_many", "list_moved", "list_displaced", "list_broken"];
  kinds.push(...logged.map((event) => `order_${event}`));
  expect([...ends]).toEqual(expect.arrayContaining(kinds));
});
