import fc from "fast-check";
import { afterAll, afterEach, beforeEach, expect, test, vi } from "vitest";
import { listenTo } from "../../support/written-lines.ts";
import { historyOf } from "./isolates/histories.ts";
import { faultsIn } from "./isolates/invariants.ts";
import { openOrderDatabase, prepare } from "./isolates/order-database.ts";
import { World } from "./isolates/world.ts";

const database = openOrderDatabase();
const RUNS = 800;

const FAKED = ["Date", "setTimeout", "clearTimeout", "setInterval", "clearInterval"] as const;
beforeEach(() => void vi.useFakeTimers({ toFake: [...FAKED] }));
afterEach(() => void vi.useRealTimers());
afterAll(() => database.close());

const reads = [
  { from: "the primary database", nearest: fc.constant<number[]>([]) },
  { from: "the nearest replica", nearest: fc.array(fc.nat(2), { minLength: 1, maxLength: 8 }) },
];

test.for(reads)(
  "from $from, a list that has begun is finished, and no key takes the lists from another",
  { timeout: 120_000 },
  async ({ nearest }) => {
    listenTo("warn");
    const ends = new Set<string | null>();
    await fc.assert(
      fc.asyncProperty(historyOf(nearest), fc.scheduler(), async (plan, scheduler) => {
        vi.setSystemTime(0);
        prepare(database, "BEGIN").run();
        try {
          const insert = prepare(database, "INSERT INTO orders (id) VALUES (?)");
          for (const n of new Set(plan.first)) insert.run(n);
          const world = new World(database, scheduler, plan);
          await world.run();
          const { history } = world;
          expect([...faultsIn(history), ...world.faults]).toStrictEqual([]);
          for (const { end, events, begunMs, endMs } of history.reads) {
            ends.add(end).add(events[0] ?? null);
            if (end === "whole" && endMs - begunMs > 86_400_000) ends.add("whole after a day");
          }
        } finally {
          vi.clearAllTimers();
          prepare(database, "ROLLBACK").run();
        }
      }),
      { numRuns: RUNS },
    );
    // Each kind of end must occur, so that it is tested.
    const kinds = ["whole", "whole after a day", "known", "head", "failed", "refused", "left"];
    const cuts = ["order_list_moved", "order_list_stalled", "order_list_broken"];
    expect([...ends]).toEqual(expect.arrayContaining([...kinds, ...cuts]));
  },
);
