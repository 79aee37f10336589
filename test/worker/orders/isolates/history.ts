import fc from "fast-check";
import { MAX_ATTEMPTS } from "../../../../src/worker/db/availability.ts";
import { LIST_SIZES } from "../../../../src/worker/orders/list-sizes.ts";
import { DAY_MS, HOUR_MS } from "../../../support/clock.ts";
import { anyId, ORDER_CHANGES } from "./order-database.ts";

type ValueOf<A> = A extends fc.Arbitrary<infer Value> ? Value : never;

const delayMs = fc.constantFrom(0, 0, 0, 0, 400, 90_000, 30 * HOUR_MS);

/** What happens to the store. In a silence or an outage no query is answered. */
const change = fc.record({
  delayMs,
  do: fc.oneof(
    { weight: 10, arbitrary: fc.constantFrom(...ORDER_CHANGES) },
    { weight: 3, arbitrary: fc.constantFrom("bulk", "restore", "silence", "outage") },
  ),
  ids: fc.array(anyId, { minLength: 1, maxLength: 8 }),
  awayMs: fc.constantFrom(100, 2_000, 100_000),
});
export type Change = ValueOf<typeof change>;

const reader = fc.record({
  delayMs,
  isolate: fc.constantFrom(0, 1),
  key: fc.constantFrom("0", "1", "2"),
  isHead: fc.constantFrom(true, false, false, false),
  /** The index of the entity tag in `If-None-Match`, among the tags so far. */
  tag: fc.constantFrom(null, null, null, -1, -2, "*"),
  pauseMs: fc.constantFrom(0, 0, 0, 59_000, 90_000, 30 * HOUR_MS),
  /** The pieces after which the client takes nothing more, and how long it then stays. */
  stopsAfter: fc.option(fc.nat(4), { freq: 2 }),
  staysMs: fc.constantFrom(0, 3 * DAY_MS),
});
export type Reader = ValueOf<typeof reader>;

export const plan = fc.record({
  /** By how many changes near reads lag, again and again; `null` for the primary database. */
  nearest: fc.oneof(fc.constant([]), fc.array(fc.option(fc.nat(4)), { minLength: 1 })),
  first: fc.uniqueArray(anyId, { maxLength: 24 }),
  readers: fc.array(reader, { minLength: 1, maxLength: 14, size: "max" }),
  changes: fc.array(change, { maxLength: 12, size: "max" }),
  /** The numbers of queries that fail: too few for all attempts of one query. */
  failing: fc.array(fc.nat(30), { maxLength: MAX_ATTEMPTS - 1 }),
  memoryBytes: fc.constantFrom(0, 1_000, 20_000),
  /** A few lists fill all places: with one segment each, or longer ones with more in a query. */
  places: fc.constantFrom(
    { maxQueries: 24, placeBytes: 1_300 },
    { maxQueries: 6, placeBytes: 5_000 },
  ),
  concurrency: fc.constantFrom(1, 2),
});
export type Plan = ValueOf<typeof plan>;

/**
 * What one client and the log saw of one request. Moments are indexes of `History.moments`: the oldest
 * one that may be answered, and those of the beginning and the end.
 */
export type Read = ReturnType<typeof beginRead>;

export const beginRead = (
  asked: Readonly<{ reader: Reader; tag: string | undefined; oldest: number; begun: number }>,
) => ({
  ...asked,
  ended: asked.begun,
  begunMs: Date.now(),
  takenMs: Date.now(),
  endedMs: Infinity,
  answeredMs: null as number | null,
  isWaiting: false,
  /** How many promises keep the request alive. */
  kept: 0,
  events: [] as string[],
  end: null as "whole" | "known" | "head" | "left" | "cut off" | "refused" | "failed" | null,
  version: null as string | null,
  received: "",
});

/** The list after a change. After a barrier, lists that have begun may be cut off. */
interface Moment {
  readonly list: string;
  readonly version: string;
  readonly atMs: number;
  readonly barrier: "bulk" | "restore" | null;
  readonly contents: Uint8Array | null;
}

export interface History {
  readonly plan: Plan;
  readonly moments: Moment[];
  readonly reads: Read[];
  /** When no query was answered. */
  readonly away: { readonly fromMs: number; readonly untilMs: number; isSilent: boolean }[];
  /** What requests do not show: those that wait forever, and what is never freed. */
  readonly faults: string[];
}

type Invariant = (read: Read, history: History) => boolean;

/** A list that has begun survives if the database does not answer for less than this. */
const AWAY_MS = 3_000;

const wasAway = ({ begunMs, endedMs }: Read, { away }: History, ms: number) =>
  away.some(
    ({ fromMs, untilMs }) => untilMs >= begunMs && Math.min(untilMs, endedMs) - fromMs >= ms,
  );

/** The moments that a list may show. A replica may show one from before a restore. */
const momentsOf = ({ oldest, ended }: Read, { moments, plan: { nearest } }: History) =>
  nearest.length > 0 && moments.some(({ barrier }) => barrier === "restore")
    ? moments
    : moments.slice(oldest, ended + 1);

/** What may cut a list off, by the event that is logged. */
const CAUSES: Record<string, Invariant> = {
  // A replica may show a moment that the primary database has passed.
  order_list_moved: (read, history) =>
    history.moments
      .slice(history.plan.nearest.length > 0 ? 0 : read.begun + 1, read.ended + 1)
      .some(({ barrier }) => barrier !== null),
  order_list_displaced: (read, { reads }) => {
    const { isolate, key } = read.reader;
    const isUnderWay = (other: Read) =>
      other.reader.isolate === isolate &&
      other.begunMs <= read.endedMs &&
      other.endedMs >= read.endedMs;
    const others = reads.filter((other) => other !== read && isUnderWay(other));
    const hasOwn = others.some((other) => other.reader.key === key && other.answeredMs !== null);
    const isStalled = !read.isWaiting && read.endedMs - read.takenMs >= LIST_SIZES.stallMs;
    // A key's only list is cut off only if it is stalled.
    return others.length > 0 && (hasOwn || isStalled);
  },
  order_list_broken: (read, history) => wasAway(read, history, AWAY_MS),
};

const INVARIANTS: Record<string, Invariant> = {
  "a list is whole, and the store at one moment while it was sent": (read, history) =>
    read.version === null ||
    ["left", "cut off"].includes(read.end!) ||
    momentsOf(read, history).some(
      ({ version, list }) =>
        version === read.version && (read.end !== "whole" || list === read.received),
    ),
  "304 is for the tag that the client has": ({ end, tag, version }) =>
    version === null || (end === "known") === (tag === "*" || tag === version),
  "a list is cut off only for one of the causes": (read, history) =>
    read.end !== "cut off" || CAUSES[read.events[0]!]?.(read, history) === true,
  "only a list that is cut off or refused is logged, and once": ({ end, events }) =>
    events.length === (end === "cut off" || end === "refused" ? 1 : 0),
  "a list that was cut off lacks its bracket": ({ end, received }) =>
    end !== "cut off" || !received.endsWith("]"),
  "nobody waits longer than the line": (read, history) =>
    history.plan.failing.length > 0 ||
    wasAway(read, history, 0) ||
    (read.answeredMs ?? read.endedMs) - read.begunMs <= LIST_SIZES.lineMs,
  "a request fails only while the database is away": (read, history) =>
    read.end !== "failed" || history.plan.failing.length > 0 || wasAway(read, history, 0),
  "one tag never names two bodies": ({ version }, { moments }) =>
    new Set(moments.filter((one) => one.version === version).map(({ list }) => list)).size <= 1,
};

export function faultsIn(history: History): string[] {
  const broken = Object.entries(INVARIANTS).flatMap(([name, holds]) =>
    history.reads.flatMap((read) =>
      holds(read, history) ? [] : `${name}: ${JSON.stringify(read)}`,
    ),
  );
  return [...history.faults, ...broken];
}
