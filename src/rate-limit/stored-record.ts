import * as z from "zod/mini";
import type { LimiterRecord } from "./decision.ts";

const count = z.int().check(z.nonnegative());
const timeMs = z.number();
const window = z.nullable(z.object({ openedMs: timeMs, count }));

/** The record as it is stored: without the wait, which need not survive (contract, section 5). */
const storedRecordSchema = z.object({
  limits: z.object({ perMinute: count, perDay: count }),
  revision: count,
  resets: count,
  minute: window,
  day: window,
  ban: z.nullable(
    z.object({ untilMs: timeMs, number: count, loggedOnly: z.optional(z.literal(true)) }),
  ),
});

export type StoredRecord = z.output<typeof storedRecordSchema>;

export function toStored({
  limits,
  revision,
  resets,
  minute,
  day,
  ban,
}: LimiterRecord): StoredRecord {
  return { limits, revision, resets, minute, day, ban };
}

/** Reads what this version or another one stored; `null` where it stored nothing that can be read. */
export function readRecord(stored: unknown): LimiterRecord | null {
  const parsed = storedRecordSchema.safeParse(stored);
  return parsed.success ? { ...parsed.data, wait: null } : null;
}
