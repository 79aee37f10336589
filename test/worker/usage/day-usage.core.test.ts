import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Decision } from "../../../src/worker/limit-rules/decision.ts";
import {
  countUsage,
  dayText,
  type DayUsage,
  type Usage,
  usageEndMs,
  usageSchema,
  usageToKeep,
} from "../../../src/worker/usage/day-usage.ts";
import { DAY_MS, START_MS } from "../limit-rules/simulated-limiter.ts";

interface Counted {
  readonly decision: Decision;
  readonly refusedElsewhere: number;
  readonly strikes: number;
  readonly bans: number;
}

const few = fc.nat(5);

/**
 * Generates a decision, and the refusals, strikes and bans to count with it. The time is random, so
 * the clock can also be set back between two requests.
 */
const anyCounted: fc.Arbitrary<Counted> = fc
  .record({
    admitted: fc.boolean(),
    refusedElsewhere: few,
    strikes: few,
    bans: few,
    minuteCount: few,
    dayCount: few,
    nowMs: fc.integer({ min: START_MS - 2 * DAY_MS, max: START_MS + 2 * DAY_MS }),
    perMinute: fc.integer({ min: 5, max: 9 }),
  })
  .map(({ admitted, minuteCount, dayCount, nowMs, perMinute, ...rest }) => ({
    ...rest,
    decision: {
      nowMs,
      admitted,
      minute: { limit: perMinute, remaining: perMinute - minuteCount, endsMs: nowMs },
      day: { limit: 20, remaining: 20 - dayCount, endsMs: nowMs },
    } as Decision,
  }));

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);

function count(usage: Usage, { decision, ...consequences }: Counted): Usage {
  return countUsage(usage, decision, consequences);
}

describe("the usage of a key", () => {
  test("is the sum of the requests of each day in UTC, even if the clock is set back", () => {
    fc.assert(
      fc.property(fc.array(anyCounted), (requests) => {
        const usage = requests.reduce(count, []);
        const byDay = Map.groupBy(requests, ({ decision }) =>
          new Date(decision.nowMs).toISOString().slice(0, 10),
        );
        const expected = [...byDay].map(([day, counted]) => {
          const decisions = counted.map(({ decision }) => decision);
          return {
            day,
            admitted: decisions.filter(({ admitted }) => admitted).length,
            refused:
              sum(counted.map(({ refusedElsewhere }) => refusedElsewhere)) +
              decisions.filter(({ admitted }) => !admitted).length,
            strikes: sum(counted.map(({ strikes }) => strikes)),
            bans: sum(counted.map(({ bans }) => bans)),
            peakMinute: Math.max(...decisions.map(({ minute }) => minute.limit - minute.remaining)),
            peakDay: Math.max(...decisions.map((decision) => 20 - decision.day.remaining)),
            limits: { perMinute: decisions.at(-1)!.minute.limit, perDay: 20 },
          };
        });
        expect(usage.map((counted) => ({ ...counted, day: dayText(counted.day) }))).toEqual(
          expected,
        );
        expect(usageSchema.parse(usage)).toEqual(usage);
      }),
    );
  });

  test("drops a day only if the day is over and unchanged since its report", () => {
    fc.assert(
      fc.property(fc.array(anyCounted), fc.array(anyCounted), fc.nat(4), (first, then, later) => {
        const reported = first.reduce(count, []);
        const usage = then.reduce(count, reported);
        const nowMs = START_MS + (later - 2) * DAY_MS;
        const today = Math.floor(nowMs / DAY_MS);
        const kept = usageToKeep(usage, reported, nowMs);
        const isReported = (day: DayUsage) => reported.some((counted) => counted === day);
        for (const counted of usage) {
          expect(kept.includes(counted)).toBe(counted.day >= today || !isReported(counted));
        }
        if (then.length === 0 && kept.length === 0) expect(usageEndMs(kept)).toBe(0);
        for (const { day } of kept) {
          expect(usageEndMs(kept)).toBeGreaterThanOrEqual((day + 1) * DAY_MS);
        }
      }),
    );
  });
});
