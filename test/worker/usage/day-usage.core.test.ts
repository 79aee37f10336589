import fc from "fast-check";
import { expect, test } from "vitest";
import { dayText } from "../../../src/rules/days.ts";
import type { Decision } from "../../../src/rules/limits/decision.ts";
import { countUsage, type Usage, usageSchema } from "../../../src/worker/usage/day-usage.ts";
import { START_MS } from "../../rules/limits/simulated-limiter.ts";
import { DAY_MS } from "../../support/clock.ts";

const few = fc.nat(5);

/** Generates a call and its counts. The times are random, so the clock can also be set back. */
const anyCall = fc.record({
  nowMs: fc.integer({ min: START_MS - 2 * DAY_MS, max: START_MS + 2 * DAY_MS }),
  admitted: fc.boolean(),
  further: fc.record({ refused: few, strikes: few, bans: few }),
  inMinute: few,
  inDay: few,
  perMinute: fc.integer({ min: 5, max: 9 }),
});

test("the usage of a key is the sum of its requests on each day in UTC, even if the clock is set back", () => {
  const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);
  fc.assert(
    fc.property(fc.array(anyCall), (calls) => {
      const usage = calls.reduce<Usage>((before, { nowMs, admitted, further, ...call }) => {
        const minute = { limit: call.perMinute, remaining: call.perMinute - call.inMinute };
        const day = { limit: 20, remaining: 20 - call.inDay };
        return countUsage(before, { nowMs, admitted, minute, day } as Decision, further);
      }, []);
      const byDay = Map.groupBy(calls, ({ nowMs }) => new Date(nowMs).toISOString().slice(0, 10));
      const expected = [...byDay].map(([day, counted]) => ({
        day,
        admitted: sum(counted.map(({ admitted }) => Number(admitted))),
        refused: sum(counted.map(({ admitted, further }) => further.refused + Number(!admitted))),
        strikes: sum(counted.map(({ further }) => further.strikes)),
        bans: sum(counted.map(({ further }) => further.bans)),
        peakMinute: Math.max(...counted.map(({ inMinute }) => inMinute)),
        peakDay: Math.max(...counted.map(({ inDay }) => inDay)),
        limits: { perMinute: counted.at(-1)!.perMinute, perDay: 20 },
      }));
      expect(usage.map((day) => ({ ...day, day: dayText(day.day) }))).toEqual(expected);
      expect(usageSchema.parse(usage)).toEqual(usage);
    }),
  );
});
