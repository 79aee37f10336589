import fc from "fast-check";
import { afterAll, afterEach, beforeEach, expect, test, vi } from "vitest";
import { openOrderDatabase, prepare } from "./isolates/order-database.ts";
import {
  type CacheFault,
  type Change,
  type QueryFault,
  type Reader,
  World,
} from "./isolates/world.ts";

const database = openOrderDatabase();
const RUNS = 2_000;

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"] }));
afterEach(() => void vi.useRealTimers());
afterAll(() => database.close());

const id = fc.integer({ min: 1, max: 24 });
const ids = fc.array(id, { minLength: 1, maxLength: 8 });

const change: fc.Arbitrary<Change> = fc.oneof(
  { weight: 4, arbitrary: id.map((n): Change => ({ do: "cancel", id: n })) },
  { weight: 3, arbitrary: id.map((n): Change => ({ do: "place", id: n })) },
  { weight: 1, arbitrary: id.map((n): Change => ({ do: "touch", id: n })) },
  { weight: 1, arbitrary: id.map((n): Change => ({ do: "ship", id: n })) },
  { weight: 1, arbitrary: id.map((n): Change => ({ do: "remove", id: n })) },
  { weight: 2, arbitrary: ids.map((all): Change => ({ do: "import", ids: all })) },
  { weight: 1, arbitrary: ids.map((all): Change => ({ do: "bulk", ids: all })) },
  { weight: 1, arbitrary: fc.constant<Change>({ do: "lose the cache" }) },
  {
    weight: 1,
    arbitrary: fc.constantFrom<Change>({ do: "wait", ms: 400 }, { do: "wait", ms: 3_000 }),
  },
);

const reader: fc.Arbitrary<Reader> = fc.record({
  isolate: fc.nat(2),
  isHead: fc.integer({ min: 0, max: 3 }).map((n) => n === 0),
  tag: fc.option(fc.nat(5), { freq: 3 }),
  leavesAfter: fc.option(fc.integer({ min: 1, max: 4 }), { freq: 2 }),
});

const queryFault = fc.oneof(
  { weight: 12, arbitrary: fc.constant<QueryFault>("pass") },
  {
    weight: 1,
    arbitrary: fc.constantFrom<QueryFault>("fail", "lose the answer", "hang", "our fault"),
  },
);
const cacheFault = fc.oneof(
  { weight: 6, arbitrary: fc.constant<CacheFault>("pass") },
  { weight: 1, arbitrary: fc.constantFrom<CacheFault>("fail", "lose", "cut off", "hang") },
);

/**
 * Generates rounds of requests and changes. The requests and changes of a round overlap; each round
 * begins after the previous one.
 */
const history = fc.record({
  first: fc.array(id, { maxLength: 24 }),
  rounds: fc.array(
    fc.record({
      readers: fc.array(reader, { minLength: 1, maxLength: 5 }),
      changes: fc.array(change, { maxLength: 4 }),
    }),
    { minLength: 1, maxLength: 3 },
  ),
  isolates: fc.integer({ min: 1, max: 2 }),
  concurrency: fc.integer({ min: 1, max: 2 }),
  queryFaults: fc.oneof(fc.constant([]), fc.array(queryFault, { maxLength: 20 })),
  cacheFaults: fc.oneof(fc.constant([]), fc.array(cacheFault, { maxLength: 20 })),
  hasCache: fc.boolean(),
  memoryBytes: fc.constantFrom(600, 2_000, 20_000),
});

test("every complete list is a consistent snapshot of the store, whatever happens while it is sent", async () => {
  const total = { whole: 0, known: 0, broken: 0, failed: 0, left: 0 };
  await fc.assert(
    fc.asyncProperty(history, fc.scheduler(), async (happened, scheduler) => {
      prepare(database, "BEGIN").run();
      try {
        const insert = prepare(database, "INSERT INTO orders (id) VALUES (?)");
        for (const n of new Set(happened.first)) insert.run(n);
        const world = new World({ ...happened, scheduler, database });
        for (const { readers, changes } of happened.rounds) {
          const inOrder = async () => {
            for (const one of changes) await world.change(one);
          };
          await world.run([...readers.map((one) => world.read(one)), inOrder()]);
        }
        for (const [kind, count] of Object.entries(world.answers)) {
          total[kind as keyof typeof total] += count;
        }
        expect(world.faults).toStrictEqual([]);
      } finally {
        vi.clearAllTimers();
        prepare(database, "ROLLBACK").run();
      }
    }),
    { numRuns: RUNS },
  );

  // Each kind of response must occur often enough to be tested.
  for (const count of Object.values(total)) expect(count).toBeGreaterThan(RUNS / 20);
}, 120_000);
