import * as z from "zod/mini";
import type { Usage } from "../usage/day-usage.ts";
import type { AnsweredRequests } from "./answered-requests.ts";
import type { UnreportedBan } from "./ban-reports.ts";
import type { ObjectState } from "./decide-once.ts";
import type { LimiterState } from "../limits/decision.ts";

const count = z.int().check(z.nonnegative());
const timeMs = z.number();
const window = z.nullable(z.object({ openedMs: timeMs, count }));

/** The record as it is stored: without the wait, which need not survive. */
const storedLimiterSchema = z.object({
  limits: z.object({ perMinute: count, perDay: count }),
  revision: count,
  resets: count,
  minute: window,
  day: window,
  ban: z.nullable(
    z.object({ untilMs: timeMs, number: count, loggedOnly: z.optional(z.literal(true)) }),
  ),
});

export type StoredLimiterState = z.output<typeof storedLimiterSchema>;

/** What an earlier version stored has none of these, which is no reason to lose the rest. */
const storedBesideSchema = z.object({
  keyId: z.catch(z.nullable(z.string()), null),
  answered: z.catch(z.string(), ""),
});

/** Everything that the object of a key stores. */
export interface StoredState extends StoredLimiterState {
  /** An object that is opened by its id alone has no name to tell the key from. */
  readonly keyId: string;
  readonly answered: AnsweredRequests;
  readonly usage: Usage;
  readonly unreportedBans?: readonly UnreportedBan[];
}

export function toStored({
  limits,
  revision,
  resets,
  minute,
  day,
  ban,
}: LimiterState): StoredLimiterState {
  return { limits, revision, resets, minute, day, ban };
}

/** Reads what this version or another one stored; `null` where it stored nothing that can be read. */
export function readLimiterState(stored: unknown): LimiterState | null {
  const parsed = storedLimiterSchema.safeParse(stored);
  return parsed.success ? { ...parsed.data, wait: null } : null;
}

/** Reads what `decideOnce` needs; a part that cannot be read is empty. */
export function readObjectState(stored: unknown): ObjectState {
  return { record: readLimiterState(stored), answered: readBeside(stored).answered };
}

/** The id of the key that stored this, or `null` if it is not in it. */
export function readKeyId(stored: unknown): string | null {
  return readBeside(stored).keyId;
}

function readBeside(stored: unknown): z.output<typeof storedBesideSchema> {
  return storedBesideSchema.parse(Object(stored));
}
