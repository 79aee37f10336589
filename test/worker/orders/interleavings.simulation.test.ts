import fc from "fast-check";
import { afterAll, afterEach, beforeEach, expect, test, vi } from "vitest";
import { listenTo } from "../../support/written-lines.ts";
import { openOrderDatabase, prepare } from "./isolates/order-database.ts";
import { type Change, type QueryFault, type Reader, World } from "./isolates/world.ts";

const database = openOrderDatabase();
const RUNS = 800;

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"] }));
afterEach(() => void vi.useRealTimers());
afterAll(() => database.close());

const id = fc.integer({ min: 1, max: 24 });
const ids = fc.array(id, { minLength: 1, maxLength: 8 });

const change: fc.Arbitrary<Change> = fc.oneof(
  { weight: 4, arbitrary: id.map((n): Change => ({ do: "cancel", id: n })) },
  { weight: 3, arbitrary: id.map((n): Change => ({ do: "place", id: n })) },
  id.map((n): Change => ({ do: "touch", id: n })),
  id.map((n): Change => ({ do: "insert", id: n })),
  id.map((n): Change => ({ do: "ship", id: n })),
  id.map((n): Change => ({ do: "replace", id: n })),
  { weight: 2, arbitrary: ids.map((all): Change => ({ do: "import", ids: all })) },
  ids.map((all): Change => ({ do: "bulk", ids: all })),
  id.map((n): Change => ({ do: "evict", id: n })),
  {
    weight: 2,
    arbitrary: fc
      .tuple(fc.nat(1), fc.nat(3))
      .map(([replica, changes]): Change => ({ do: "follow", replica, changes })),
  },
  { weight: 2, arbitrary: fc.constantFrom<Change>({ do: "restore" }, { do: "keep house" }) },
  fc.constantFrom(400, 3_000, 7_200_000).map((ms): Change => ({ do: "wait", ms })),
);

const reader: fc.Arbitrary<Reader> = fc.record({
  isolate: fc.nat(2),
  key: fc.nat(1),
  isHead: fc.integer({ min: 0, max: 3 }).map((n) => n === 0),
  tag: fc.option(fc.nat(5), { freq: 3 }),
  stopsAfter: fc.option(fc.integer({ min: 1, max: 4 }), { freq: 2 }),
  stops: fc.constantFrom("leave", "stall"),
  pauseMs: fc.constantFrom(0, 0, 0, 59_000),
});

const queryFault = fc.oneof(
  { weight: 8, arbitrary: fc.constant<QueryFault>("pass") },
  fc.constantFrom<QueryFault>("fail", "lose the answer", "hang", "our fault"),
);
/** Rounds of overlapping requests and changes. Each round begins after the previous one ends. */
const history = (nearest: fc.Arbitrary<number[]>) =>
  fc.record({
    nearest,
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
    memoryBytes: fc.constantFrom(600, 2_000, 20_000),
    underWayBytes: fc.constantFrom(600, 1_500, 20_000),
  });

const reads = [
  { from: "the primary database", nearest: fc.constant<number[]>([]), rarest: RUNS / 400 },
  {
    from: "the nearest replica",
    nearest: fc.array(fc.nat(2), { minLength: 1, maxLength: 8 }),
    rarest: 0,
  },
];

test.for(reads)(
  "from $from, every list is the store at one moment, and only four causes cut a list off",
  { timeout: 120_000 },
  async ({ nearest, rarest }) => {
    const warnings = listenTo("warn");
    const total: Record<string, number> = {};
    await fc.assert(
      fc.asyncProperty(history(nearest), fc.scheduler(), async (happened, scheduler) => {
        vi.setSystemTime(0);
        prepare(database, "BEGIN").run();
        try {
          const insert = prepare(database, "INSERT INTO orders (id) VALUES (?)");
          for (const n of new Set(happened.first)) insert.run(n);
          const world = new World(database, scheduler, happened);
          for (const { readers, changes } of happened.rounds) {
            const inOrder = async () => {
              for (const one of changes) await world.change(one);
            };
            await world.run([...readers.map((one) => world.read(one)), inOrder()]);
          }
          await world.expectFree();
          for (const [kind, count] of Object.entries(world.answers)) {
            total[kind] = (total[kind] ?? 0) + count;
          }
          expect(world.faults).toStrictEqual([]);
        } finally {
          vi.clearAllTimers();
          prepare(database, "ROLLBACK").run();
        }
      }),
      { numRuns: RUNS },
    );

    // Expects only warnings of the simulated faults.
    const own = warnings().filter(
      (line) => !/Network connection lost|SQLITE_ERROR|timed out|_(?:off|recovered)"/.test(line),
    );
    expect(own).toStrictEqual([]);
    // Reads from the primary database must produce each kind of response often enough to test it.
    for (const [kind, count] of Object.entries(total)) {
      expect(count, kind).toBeGreaterThanOrEqual(rarest);
    }
  },
);
