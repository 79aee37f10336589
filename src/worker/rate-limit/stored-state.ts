import * as z from "zod/mini";
import type { LimiterState } from "../limits/decision.ts";
import type { Usage } from "../usage/day-usage.ts";
import type { AnsweredRequests } from "./answered-requests.ts";
import type { UnreportedBan } from "./ban-reports.ts";
import type { ObjectState } from "./decide-once.ts";

const count = z.int().check(z.nonnegative());
const timeMs = z.number();
const window = z.nullable(z.object({ openedMs: timeMs, count }));

const limiterStateSchema = z.object({
  limits: z.object({
    perMinute: count,
    perDay: count,
  }),
  revision: count,
  resets: count,
  minute: window,
  day: window,
  ban: z.nullable(
    z.object({ untilMs: timeMs, number: count, loggedOnly: z.optional(z.literal(true)) }),
  ),
});

/** The part of a limiter's state that is stored: all but the wait, which need not survive a restart. */
export type StoredLimiterState = z.output<typeof limiterStateSchema>;

// An earlier version stored neither field. That must not make the rest unreadable.
const otherFieldsSchema = z.object({
  keyId: z.catch(z.nullable(z.string()), null),
  answered: z.catch(z.string(), ""),
});

/**
 * Everything that the object of a key stores, in one row. Other versions of the service read it, so
 * a field keeps its name for good, and a new field must have a default.
 */
export interface StoredState extends StoredLimiterState {
  /** Names the key, because an object that is opened by its id has no name. */
  readonly keyId: string;
  readonly answered: AnsweredRequests;
  readonly usage: Usage;
  readonly unreportedBans?: readonly UnreportedBan[];
}

/** Picks the part of a limiter's state that is stored. */
export function toStored({ wait: _wait, ...stored }: LimiterState): StoredLimiterState {
  return stored;
}

/** Reads a limiter state that any version has stored. Returns `null` if it cannot be read. */
export function readLimiterState(stored: unknown): LimiterState | null {
  const parsed = limiterStateSchema.safeParse(stored);
  return parsed.success ? { ...parsed.data, wait: null } : null;
}

/** Reads what `decideOnce` needs. A part that cannot be read is empty. */
export function readObjectState(stored: unknown): ObjectState {
  return { limiter: readLimiterState(stored), answered: readOtherFields(stored).answered };
}

/** Reads the id of the key. Returns `null` if an earlier version stored none. */
export function readKeyId(stored: unknown): string | null {
  return readOtherFields(stored).keyId;
}

function readOtherFields(stored: unknown): z.output<typeof otherFieldsSchema> {
  return otherFieldsSchema.parse(Object(stored));
}
