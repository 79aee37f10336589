import fc from "fast-check";
import { afterAll, afterEach, beforeEach, expect, test, vi } from "vitest";
import { DAY_MS } from "../../support/clock.ts";
import { listenTo } from "../../support/written-lines.ts";
import { type Change, faultsIn, plan } from "./isolates/history.ts";
import { execute, openOrderDatabase } from "./isolates/order-database.ts";
import { play } from "./isolates/world.ts";

const database = openOrderDatabase();
const FAKED = ["Date", "setTimeout", "clearTimeout", "setInterval", "clearInterval"] as const;
beforeEach(() => void vi.useFakeTimers({ toFake: [...FAKED] }));
afterEach(() => void vi.useRealTimers());
afterAll(() => database.close());

/** Runs `work` at the time 0, in a transaction that is rolled back. */
async function undone(work: () => Promise<void>): Promise<void> {
  vi.setSystemTime(0);
  execute(database, "BEGIN");
  try {
    await work();
  } finally {
    vi.clearAllTimers();
    execute(database, "ROLLBACK");
  }
}

test("a history in which the database throws ends with this error", async () => {
  const change: Change = { delayMs: 90_000, do: "touch", ids: [1n], awayMs: 100 };
  const property = fc.asyncProperty(plan, fc.scheduler(), (planned, scheduler) =>
    undone(async () => {
      database.exec(`CREATE TRIGGER broken BEFORE UPDATE ON orders BEGIN
        SELECT raise(ABORT, 'broken'); END`);
      const history = play(database, scheduler, { ...planned, first: [1n], changes: [change] });
      await expect(history).rejects.toThrow("broken");
    }),
  );
  await fc.assert(property, { numRuns: 5 });
});

test("from any database, a list that has begun is finished, and no key takes the lists from another", async () => {
  listenTo("warn");
  const ends = new Set<string | null>();
  const property = fc.asyncProperty(plan, fc.scheduler(), (planned, scheduler) =>
    undone(async () => {
      const history = await play(database, scheduler, planned);
      expect(faultsIn(history)).toStrictEqual([]);
      for (const { end, events, begunMs, endedMs } of history.reads) {
        ends.add(events[0] ?? end);
        if (end === "whole" && endedMs - begunMs > DAY_MS) ends.add("whole after a day");
      }
    }),
  );
  await fc.assert(property, { numRuns: 800 });
  // Each kind of end must occur, so that it is tested.
  const kinds = ["whole", "whole after a day", "known", "head", "failed", "left"];
  const logged = ["lists_too_many", "list_moved", "list_displaced", "list_broken"];
  kinds.push(...logged.map((event) => `order_${event}`));
  expect([...ends]).toEqual(expect.arrayContaining(kinds));
});
