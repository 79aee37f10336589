import * as z from "zod";
import type { LimiterRecord } from "./decision.ts";

const count = z.int().nonnegative();
const timeMs = z.number();
const window = z.object({ openedMs: timeMs, count }).nullable();

/** The record as it is stored: without the wait, which need not survive (contract, section 5). */
const storedRecordSchema = z.object({
  limits: z.object({ perMinute: count, perDay: count }),
  revision: count,
  resets: count,
  minute: window,
  day: window,
  ban: z
    .object({ untilMs: timeMs, number: count, loggedOnly: z.literal(true).optional() })
    .nullable(),
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
