import fc from "fast-check";
import { MAX_ATTEMPTS } from "../../../../src/worker/db/availability.ts";
import { DAY_MS, HOUR_MS } from "../../../support/clock.ts";
import { ORDER_CHANGES } from "./order-database.ts";

type ValueOf<A> = A extends fc.Arbitrary<infer Value> ? Value : never;

const id = fc.integer({ min: 1, max: 24 });
const delayMs = fc.constantFrom(0, 0, 0, 0, 400, 90_000, 30 * HOUR_MS);

/** What happens to the store. While it is silent or overloaded, no query is answered. */
const change = fc.record({
  delayMs,
  do: fc.oneof(
    { weight: 10, arbitrary: fc.constantFrom(...ORDER_CHANGES) },
    { weight: 3, arbitrary: fc.constantFrom("bulk", "restore", "silence", "overload") },
  ),
  ids: fc.array(id, { minLength: 1, maxLength: 8 }),
  awayMs: fc.constantFrom(100, 2_000, 100_000),
});
export type Change = ValueOf<typeof change>;

/** A request, and the behaviour of its client. */
const reader = fc.record({
  delayMs,
  isolate: fc.nat(1),
  key: fc.constantFrom("0", "1"),
  isHead: fc.constantFrom(true, false, false, false),
  /** The index of the entity tag in `If-None-Match`, among the tags so far; `null` for no header. */
  tag: fc.oneof({ weight: 4, arbitrary: fc.constant(null) }, fc.nat(5), fc.constant("*" as const)),
  /** How long the client waits before each piece. */
  pauseMs: fc.constantFrom(0, 0, 0, 59_000, 90_000, 30 * HOUR_MS),
  /** The pieces after which the client takes nothing more, and how long it then stays. */
  stopsAfter: fc.option(fc.nat(4), { freq: 2 }),
  staysMs: fc.constantFrom(0, 3 * DAY_MS),
});
export type Reader = ValueOf<typeof reader>;

export const plan = fc.record({
  /** By how many changes near reads lag, again and again; `null` for the primary database. */
  nearest: fc.oneof(fc.constant([]), fc.array(fc.option(fc.nat(4)), { minLength: 1 })),
  first: fc.uniqueArray(id, { maxLength: 24 }),
  readers: fc.array(reader, { minLength: 1, maxLength: 14, size: "max" }),
  changes: fc.array(change, { maxLength: 12, size: "max" }),
  /** The numbers of queries that fail: too few for all attempts of one query. */
  failing: fc.oneof(
    fc.constant<number[]>([]),
    fc.array(fc.nat(30), { maxLength: MAX_ATTEMPTS - 1 }),
  ),
  memoryBytes: fc.constantFrom(600, 2_000, 20_000),
  /** Two lists of a key fill its part, or several longer ones with more segments in a query. */
  places: fc.constantFrom({ maxQueries: 24, heldOrders: 26 }, { maxQueries: 6, heldOrders: 80 }),
});
export type Plan = ValueOf<typeof plan>;
