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

/**
 * The limiter state as it is stored. The wait is missing, because it need not survive a restart.
 */
export type StoredLimiterState = z.output<typeof limiterStateSchema>;

// Missing or invalid fields get a default, because an earlier version of the service stored neither
// `keyId` nor `answered`.
const otherFieldsSchema = z.object({
  keyId: z.catch(z.nullable(z.string()), null),
  answered: z.catch(z.string(), ""),
});

/**
 * Everything that the Durable Object of a key stores, in one row. Other versions of the service
 * read this row. So fields must never be renamed, and a new field needs a default.
 */
export interface StoredState extends StoredLimiterState {
  /** The id of the key. Stored because a Durable Object that is opened by its id has no name. */
  readonly keyId: string;
  readonly answered: AnsweredRequests;
  readonly usage: Usage;
  readonly unreportedBans?: readonly UnreportedBan[];
}

/** Converts a limiter state to its stored form. */
export function toStored({ wait: _wait, ...stored }: LimiterState): StoredLimiterState {
  return stored;
}

/**
 * Parses a limiter state that any version of the service has stored. Returns `null` if the stored
 * value is invalid.
 */
export function readLimiterState(stored: unknown): LimiterState | null {
  const parsed = limiterStateSchema.safeParse(stored);
  return parsed.success ? { ...parsed.data, wait: null } : null;
}

/** Parses the state that `decideOnce` needs. A part that is missing or invalid becomes empty. */
export function readObjectState(stored: unknown): ObjectState {
  return { limiter: readLimiterState(stored), answered: readOtherFields(stored).answered };
}

/** Returns the stored id of the key; `null` if an earlier version of the service stored no id. */
export function readKeyId(stored: unknown): string | null {
  return readOtherFields(stored).keyId;
}

function readOtherFields(stored: unknown): z.output<typeof otherFieldsSchema> {
  return otherFieldsSchema.parse(Object(stored));
}
