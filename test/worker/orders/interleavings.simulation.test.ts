import fc from "fast-check";
import { afterAll, afterEach, beforeEach, expect, test, vi } from "vitest";
import { listenTo } from "../../support/written-lines.ts";
import { openOrderDatabase, prepare } from "./isolates/order-database.ts";
import { type Blip, type Change, type Reader, World } from "./isolates/world.ts";

const database = openOrderDatabase();
const RUNS = 800;

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"] }));
afterEach(() => void vi.useRealTimers());
afterAll(() => database.close());

const id = fc.integer({ min: 1, max: 24 });
const ids = fc.array(id, { minLength: 1, maxLength: 8 });
const one = (weight: number, arbitrary: fc.Arbitrary<Change>) => ({ weight, arbitrary });

const change = fc.oneof(
  one(4, fc.record({ do: fc.constant("cancel" as const), id })),
  one(3, fc.record({ do: fc.constant("place" as const), id })),
  one(4, fc.record({ do: fc.constantFrom("touch", "insert", "replace", "evict"), id })),
  one(1, fc.record({ do: fc.constant("bulk" as const), ids })),
  one(2, fc.record({ do: fc.constant("follow" as const), replica: fc.nat(1), changes: fc.nat(3) })),
  one(2, fc.constantFrom<Change>({ do: "restore" }, { do: "keep house" })),
  one(
    1,
    fc.record({ do: fc.constant("wait" as const), ms: fc.constantFrom(400, 90_000, 7_200_000) }),
  ),
  one(
    1,
    fc.record({
      do: fc.constant("away" as const),
      ms: fc.constantFrom(100, 2_000, 30_000),
      error: fc.constantFrom(null, "D1_ERROR: D1 DB is overloaded. Too many requests queued."),
    }),
  ),
);

const reader: fc.Arbitrary<Reader> = fc.record({
  isolate: fc.nat(2),
  key: fc.nat(1),
  isHead: fc.integer({ min: 0, max: 3 }).map((n) => n === 0),
  tag: fc.option(fc.nat(5), { freq: 3 }),
  stopsAfter: fc.option(fc.integer({ min: 0, max: 4 }), { freq: 2 }),
  stops: fc.constantFrom("leave", "stall"),
  pauseMs: fc.constantFrom(0, 0, 0, 59_000, 90_000),
});

const blip = fc.constantFrom<Blip>("pass", "pass", "pass", "fail", "lose the answer");
/** Rounds of overlapping requests and changes. Each round begins after the previous one ends. */
const history = (nearest: fc.Arbitrary<number[]>) =>
  fc.record({
    nearest,
    first: fc.array(id, { maxLength: 24 }),
    rounds: fc.array(
      fc.record({
        readers: fc.array(reader, { minLength: 1, maxLength: 6 }),
        changes: fc.array(change, { maxLength: 4 }),
      }),
      { minLength: 1, maxLength: 3 },
    ),
    isolates: fc.integer({ min: 1, max: 2 }),
    blips: fc.oneof(fc.constant([]), fc.array(blip, { maxLength: 20 })),
    memoryBytes: fc.constantFrom(600, 2_000, 20_000),
    places: fc.constantFrom("few", "more"),
  });

const reads = [
  { from: "the primary database", nearest: fc.constant<number[]>([]) },
  { from: "the nearest replica", nearest: fc.array(fc.nat(2), { minLength: 1, maxLength: 8 }) },
];

test.for(reads)(
  "from $from, every list is the store at one moment, only four causes cut a list off, and no key takes the lists from another",
  { timeout: 120_000 },
  async ({ nearest }) => {
    listenTo("warn");
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
              for (const next of changes) await world.change(next);
            };
            await world.run([...readers.map((next) => world.read(next)), inOrder()]);
          }
          await world.expectFree();
          for (const [end, count] of Object.entries(world.ends))
            total[end] = (total[end] ?? 0) + count;
          expect(world.faults).toStrictEqual([]);
        } finally {
          vi.clearAllTimers();
          prepare(database, "ROLLBACK").run();
        }
      }),
      { numRuns: RUNS },
    );
    // Each kind of end must occur, so that it is tested.
    const ends = ["whole", "known", "failed", "refused", "left"];
    const cuts = ["order_list_moved", "order_list_stalled", "order_list_broken"];
    expect(Object.keys(total)).toEqual(expect.arrayContaining([...ends, ...cuts]));
  },
);
