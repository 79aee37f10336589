import fc from "fast-check";
import { HOUR_MS } from "../../../support/clock.ts";

type ValueOf<A> = A extends fc.Arbitrary<infer Value> ? Value : never;

const id = fc.integer({ min: 1, max: 24 });
const weighted = <T>(weight: number, fields: { [Name in keyof T]: fc.Arbitrary<T[Name]> }) => ({
  weight,
  arbitrary: fc.record(fields),
});

const change = fc.oneof(
  weighted(10, { do: fc.constantFrom("cancel", "place", "touch", "insert", "replace"), id }),
  weighted(1, { do: fc.constant("evict"), isolate: fc.nat(1) }),
  weighted(1, { do: fc.constant("bulk"), ids: fc.array(id, { minLength: 1, maxLength: 8 }) }),
  // A replica receives some of the changes that it lacks.
  weighted(2, { do: fc.constant("follow"), replica: fc.nat(1), changes: fc.nat(3) }),
  weighted(1, { do: fc.constant("restore") }),
  weighted(1, { do: fc.constant("wait"), ms: fc.constantFrom(400, 90_000, 2 * HOUR_MS) }),
  // No query is answered, or all fail with `error`, for this long.
  weighted(1, {
    do: fc.constant("away"),
    ms: fc.constantFrom(100, 2_000, 30_000),
    error: fc.constantFrom(null, "D1_ERROR: D1 DB is overloaded. Too many requests queued."),
  }),
);
export type Change = ValueOf<typeof change>;

/** A request, and the behaviour of its client. */
const reader = fc.record({
  isolate: fc.nat(2),
  key: fc.constantFrom("0", "1"),
  isHead: fc.constantFrom(true, false, false, false),
  /** The index of the entity tag in `If-None-Match`, among the tags so far; `null` for no header. */
  tag: fc.option(fc.nat(5), { freq: 3 }),
  /** The pieces after which the client leaves or takes nothing more; `null` if it reads all. */
  stopsAfter: fc.option(fc.nat(4), { freq: 2 }),
  stops: fc.constantFrom("leave", "stall"),
  /** How long the client waits before each piece. */
  pauseMs: fc.constantFrom(0, 0, 0, 59_000, 90_000, 30 * HOUR_MS),
});
export type Reader = ValueOf<typeof reader>;

/** What happens to one query: only for a moment, so the next attempt may succeed. */
const blip = fc.constantFrom("pass", "pass", "pass", "fail", "lose the answer");

export const plan = fc.record({
  /** The databases of near reads, again and again: 0 and 1 are replicas, 2 is the primary. */
  nearest: fc.oneof(fc.constant([]), fc.array(fc.nat(2), { minLength: 1, maxLength: 8 })),
  first: fc.uniqueArray(id, { maxLength: 24 }),
  /** Overlapping requests and changes. Each round begins after the previous one ends. */
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
  /** Two lists of a key fill its part, or several longer ones with more segments in a query. */
  places: fc.constantFrom({ maxQueries: 24, heldOrders: 26 }, { maxQueries: 6, heldOrders: 80 }),
});
export type Plan = ValueOf<typeof plan>;
