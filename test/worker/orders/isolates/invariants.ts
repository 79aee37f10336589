import { LIST_SIZES } from "../../../../src/worker/orders/list-stream.ts";
import type { ListEvent } from "../../../../src/worker/orders/order-lists.ts";
import type { Contents } from "./order-database.ts";
import type { Plan, Reader } from "./histories.ts";

/** A list that has begun survives if the database does not answer for less than this. */
const AWAY_MS = 3_000;

/** What one client and the log saw of one request. */
export interface Read {
  readonly reader: Reader;
  readonly tag: string | undefined;
  /** The index of the oldest moment that may be answered, and of the first and last moment. */
  readonly oldest: number;
  readonly begun: number;
  ended: number;
  readonly begunMs: number;
  /** When the client last took a piece. */
  takenMs: number;
  endedMs: number;
  readonly events: ListEvent[];
  end: "whole" | "known" | "head" | "left" | "cut off" | "refused" | "failed" | null;
  version: string | null;
  received: string;
}

export interface History {
  readonly plan: Plan;
  /** The list after each change; a list begun before a barrier may be cut off. */
  readonly moments: {
    readonly list: string;
    readonly version: string;
    readonly atMs: number;
    readonly barrier: "bulk" | "restore" | null;
    readonly contents: Contents | null;
  }[];
  readonly reads: Read[];
  /** When no query was answered. */
  readonly away: { readonly fromMs: number; readonly untilMs: number; isSilent: boolean }[];
  /** What requests do not show: those that wait forever, and what is never freed. */
  readonly faults: string[];
}

type Invariant = (read: Read, history: History) => boolean;

const isNearest = ({ plan }: History) => plan.nearest.length > 0;

const wasAway = ({ begunMs, endedMs }: Read, { away }: History, ms: number) =>
  away.some(
    ({ fromMs, untilMs }) => untilMs >= begunMs && Math.min(untilMs, endedMs) - fromMs >= ms,
  );

const CAUSES: Record<string, Invariant> = {
  // A replica may show a moment that the primary database has passed.
  order_list_moved: ({ begun, ended }, history) =>
    history.moments
      .slice(isNearest(history) ? 0 : begun + 1, ended + 1)
      .some(({ barrier }) => barrier !== null),
  order_list_stalled: ({ reader, endedMs, takenMs }, { reads }) =>
    endedMs - takenMs >= LIST_SIZES.stallMs &&
    reads.some((other) => other.reader.isolate === reader.isolate && other.begunMs > takenMs),
  order_list_broken: (read, history) => wasAway(read, history, AWAY_MS),
};

const INVARIANTS: Record<string, Invariant> = {
  "every request ends": ({ end }) => end !== null,
  "a list is whole, and the store at one moment between its beginning and its end": (
    { end, version, oldest, ended, received },
    history,
  ) => {
    if (version === null || end === "left" || end === "cut off") return true;
    const { moments } = history;
    const isRestored = isNearest(history) && moments.some((one) => one.barrier === "restore");
    return moments
      .slice(isRestored ? 0 : oldest, ended + 1)
      .some((one) => one.version === version && (end !== "whole" || one.list === received));
  },
  "304 is for the tag that the client has": ({ end, tag, version }) =>
    version === null || (end === "known") === (tag === "*" || tag === version),
  "only these cut a list off: a bulk change, a restore, the database, a place that is needed": (
    read,
    history,
  ) => read.end !== "cut off" || CAUSES[read.events[0]!]?.(read, history) === true,
  "only a list that is cut off or refused is logged, and once": ({ end, events }) =>
    events.length === (end === "cut off" || end === "refused" ? 1 : 0),
  "a list that was cut off lacks its bracket": ({ end, received }) =>
    end !== "cut off" || !received.endsWith("]"),
  "a request fails only while the database is away": (read, history) =>
    read.end !== "failed" || history.plan.failing.length > 0 || wasAway(read, history, 0),
  "one tag never names two bodies": ({ version }, { moments }) =>
    new Set(moments.filter((one) => one.version === version).map(({ list }) => list)).size <= 1,
};

/** Returns what is wrong in a history. */
export function faultsIn(history: History): string[] {
  const broken = Object.entries(INVARIANTS).flatMap(([name, holds]) =>
    history.reads
      .filter((read) => !holds(read, history))
      .map((read) => `${name}: ${JSON.stringify(read)}`),
  );
  return [...history.faults, ...broken];
}
