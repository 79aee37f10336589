import * as z from "zod/mini";
import type { LimiterState } from "../../rules/limits/limiter-state.ts";
import { logEvent } from "../log.ts";
import { type Usage, usageSchema } from "../usage/day-usage.ts";
import { type UnreportedBans, unreportedBansSchema } from "../usage/key-reports.ts";

const count = z.int().check(z.nonnegative());
const timeMs = z.number();
const window = z.nullable(z.object({ openedMs: timeMs, count }));

const limiterSchema = z.object({
  limits: z.object({ perMinute: count, perDay: count }),
  revision: count,
  resets: count,
  minute: window,
  day: window,
  ban: z.nullable(
    z.object({
      beganMs: timeMs,
      untilMs: timeMs,
      number: count,
      loggedOnly: z.optional(z.literal(true)),
    }),
  ),
});

/**
 * Everything that the Durable Object of a key stores, in one row. Other versions of the service
 * read this row, from 1.0.0 on. So fields must never be renamed, and a new field needs a default.
 */
export interface StoredState extends z.output<typeof limiterSchema> {
  /** The id of the key. Stored because a Durable Object that is opened by its id has no name. */
  readonly keyId: string;
  readonly usage: Usage;
  readonly unreportedBans?: UnreportedBans;
  /** Unix time in milliseconds of the last cancellation; 0 if there was none. */
  readonly cancelledMs: number;
}

/**
 * Reads a row that any version of the service has stored. A part that is missing or unreadable is
 * empty; logs which parts are unreadable.
 */
export function readState(stored: unknown) {
  const { keyId, usage, unreportedBans, cancelledMs } = Object(stored) as Record<string, unknown>;
  const id = typeof keyId === "string" ? keyId : null;
  const read = <T>(part: string, schema: z.ZodMiniType<T>, value: unknown): T | null => {
    const parsed = schema.safeParse(value);
    if (parsed.success) return parsed.data;
    if (value !== undefined) logEvent({ event: "limiter_state_unreadable", keyId: id, part });
    return null;
  };
  const limiter = read("limiter", limiterSchema, stored);
  return {
    limiter: limiter && ({ ...limiter, wait: null } satisfies LimiterState),
    keyId: id,
    usage: read("usage", usageSchema, usage) ?? [],
    unreportedBans: read("bans", unreportedBansSchema, unreportedBans) ?? [],
    cancelledMs: read("cancellation", timeMs, cancelledMs),
  };
}
