import type { ListEvent } from "../../../../src/worker/orders/order-lists.ts";
import type { Contents } from "./order-database.ts";
import type { Reader } from "./histories.ts";

/** A database that does not answer is away for at least this long before a list is cut off. */
const AWAY_MS = 3_000;

/** The list after a change. */
export interface Moment {
  readonly list: string;
  readonly version: string;
  readonly atMs: number;
  /** Whether the change was a bulk change or a restore. */
  readonly isBarrier: boolean;
  readonly contents: Contents | null;
}

/** What one client and the log saw of one request. */
export interface Read {
  readonly reader: Reader;
  /** The oldest moment that may be answered. */
  readonly from: number;
  readonly begunMs: number;
  /** The moment when the request began. */
  readonly begun: number;
  readonly tag: string | undefined;
  readonly events: ListEvent[];
  /** The other requests of its key under way in its isolate when it was refused. */
  others: number;
  received: string;
  takenMs: number;
  end: "whole" | "known" | "head" | "left" | "cut off" | "refused" | "failed" | null;
  version: string | null;
  endMs: number;
  endMoment: number;
}

export interface History {
  readonly moments: readonly Moment[];
  readonly reads: readonly Read[];
  /** When no query was answered, or all failed. */
  readonly away: readonly { readonly fromMs: number; readonly untilMs: number }[];
  readonly isNearest: boolean;
  readonly hasBlips: boolean;
  readonly stallMs: number;
}

type Invariant = (read: Read, history: History) => boolean;

const wasAway = ({ begunMs, endMs }: Read, { away }: History, ms: number) =>
  away.some(({ fromMs, untilMs }) => untilMs >= begunMs && Math.min(untilMs, endMs) - fromMs >= ms);

/** Whether a bulk change or a restore came after the moment that a list shows. */
const hasMoved = ({ begun, endMoment }: Read, { moments, isNearest }: History) =>
  // A replica may show a moment that the primary database has passed.
  moments.slice(isNearest ? 0 : begun + 1, endMoment + 1).some(({ isBarrier }) => isBarrier);

const CAUSES: Record<string, Invariant> = {
  order_list_moved: hasMoved,
  order_list_stalled: ({ endMs, takenMs }, { stallMs }) => endMs - takenMs >= stallMs,
  order_list_broken: (read, history) => wasAway(read, history, AWAY_MS),
};

const INVARIANTS: Record<string, Invariant> = {
  "every request ends": ({ end }) => end !== null,
  "a list is whole, and the store at one moment between its beginning and its end": (
    { end, version, from, endMoment, received },
    { moments, isNearest },
  ) => {
    if (version === null || end === "left" || end === "cut off") return true;
    const isRestored = isNearest && moments.some(({ isBarrier }) => isBarrier);
    return moments
      .slice(isRestored ? 0 : from, endMoment + 1)
      .some((one) => one.version === version && (end !== "whole" || one.list === received));
  },
  "304 is for the tag that the client has": ({ end, tag, version }) =>
    version === null || (end === "known") === (tag === version),
  "only these cut a list off: a bulk change, a restore, the database, a place that is needed": (
    read,
    history,
  ) => read.end !== "cut off" || CAUSES[read.events[0]!]?.(read, history) === true,
  "only a list that is cut off or refused is logged, and once": ({ end, events }) =>
    events.length === (end === "cut off" || end === "refused" ? 1 : 0),
  "a list that was cut off lacks its bracket": ({ end, received }) =>
    end !== "cut off" || !received.endsWith("]"),
  "No key can take the lists from another": ({ end, others }) => end !== "refused" || others > 0,
  "a request fails only while the database is away": (read, history) =>
    read.end !== "failed" || history.hasBlips || wasAway(read, history, 0),
};

/** Returns the invariants that a history breaks. */
export function faultsIn(history: History): string[] {
  const faults = Object.entries(INVARIANTS).flatMap(([name, holds]) =>
    history.reads.filter((read) => !holds(read, history)).map((read) => describe(name, read)),
  );
  const bodies = new Map<string, string>();
  for (const read of history.reads) {
    if (read.end !== "whole" || read.version === null) continue;
    const body = bodies.get(read.version) ?? read.received;
    if (body !== read.received) faults.push(describe("one tag never names two bodies", read));
    bodies.set(read.version, body);
  }
  return faults;
}

function describe(invariant: string, { reader, events, end, received }: Read): string {
  return `${invariant}: ${JSON.stringify({ reader, events, end, received })}`;
}
