import * as z from "zod/mini";
import type { Usage } from "./day-usage.ts";

const count = z.int().check(z.nonnegative());

// What an earlier version stored has no usage in it.
const storedUsageSchema = z._default(
  z.array(
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
  ),
  [],
);

/** Reads what this version or another one stored; `null` where it stored nothing that can be read. */
export function readUsage(stored: unknown): Usage | null {
  const parsed = storedUsageSchema.safeParse(stored);
  return parsed.success ? parsed.data : null;
}
