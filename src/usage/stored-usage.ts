import * as z from "zod";
import type { Usage } from "./day-usage.ts";

const count = z.int().nonnegative();

const storedUsageSchema = z
  .array(
    z.object({
      day: count,
      admitted: count,
      refused: count,
      strikes: count,
      bans: count,
      peakMinute: count,
      peakDay: count,
      limits: z.object({ perMinute: count, perDay: count }),
    }),
  )
  // What an earlier version stored has no usage in it.
  .default([]);

/** Reads what this version or another one stored; `null` where it stored nothing that can be read. */
export function readUsage(stored: unknown): Usage | null {
  const parsed = storedUsageSchema.safeParse(stored);
  return parsed.success ? parsed.data : null;
}
