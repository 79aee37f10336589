import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Decision, decide } from "../../../src/worker/limit-rules/decision.ts";
import {
  countUsage,
  dayText,
  type DayUsage,
  type Usage,
  usageEndMs,
  usageSchema,
  usageToKeep,
} from "../../../src/worker/usage/day-usage.ts";
import { LimitsModel } from "../limit-rules/limits-model.ts";
import { anyBanPolicy, anyHistory, anyLimits, play } from "../limit-rules/histories.ts";
import { DAY_MS, keyPolicy, SimulatedLimiter, START_MS } from "../limit-rules/simulated-limiter.ts";

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

/** A simulated limiter that counts and stores its usage like the Durable Object. */
class CountingLimiter extends SimulatedLimiter {
  usage: Usage = [];
  #stored: Usage = [];

  override request(): Decision {
    const { state, decision, strikes, bans } = decide(
      this.state,
      this.policy,
      this.bans,
      this.nowMs,
    );
    this.state = state;
    this.usage = countUsage(this.usage, decision, { refusedElsewhere: 0, strikes, bans });
    if (decision.admitted || bans > 0) this.#stored = structuredClone(this.usage);
    return decision;
  }

  override restart(): this {
    this.usage = this.#stored;
    return super.restart();
  }
}

const totals = (usage: Usage) => ({
  admitted: sum(usage.map(({ admitted }) => admitted)),
  refused: sum(usage.map(({ refused }) => refused)),
  strikes: sum(usage.map(({ strikes }) => strikes)),
  bans: sum(usage.map(({ bans }) => bans)),
});

describe("for any history of a key", () => {
  test("admissions and bans are exact; a restart can only lose refusals and strikes", () => {
    const seen = { strikes: 0, bans: 0, lost: 0 };
    fc.assert(
      fc.property(anyLimits, anyBanPolicy, anyHistory, (limits, banPolicy, history) => {
        const policy = keyPolicy(limits.perMinute, limits.perDay);
        const limiter = new CountingLimiter(policy, banPolicy);
        const model = new LimitsModel(banPolicy);
        const exact = { admitted: 0, refused: 0 };
        let restarts = 0;
        play(limiter, history, {
          requested(under, nowMs, { admitted }) {
            exact[admitted ? "admitted" : "refused"] += 1;
            model.request(under, nowMs);
          },
          restarted() {
            model.restart();
            restarts += 1;
          },
        });
        const { admitted, refused, strikes, bans } = totals(limiter.usage);
        expect({ admitted, bans }).toEqual({ admitted: exact.admitted, bans: model.bans });
        expect(refused).toBeLessThanOrEqual(exact.refused);
        expect(strikes).toBeLessThanOrEqual(model.strikes);
        if (restarts === 0) {
          expect({ refused, strikes }).toEqual({ refused: exact.refused, strikes: model.strikes });
        }
        seen.strikes += strikes;
        seen.bans += bans;
        seen.lost += exact.refused - refused;
      }),
      { numRuns: 500 },
    );
    expect(seen.strikes).toBeGreaterThan(100);
    expect(seen.bans).toBeGreaterThan(50);
    expect(seen.lost).toBeGreaterThan(10);
  });
});
