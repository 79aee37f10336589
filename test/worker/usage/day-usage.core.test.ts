import { expect, test } from "vitest";
import type { Decision } from "../../../src/rules/limits/decision.ts";
import { countUsage, type Usage, usageSchema } from "../../../src/worker/usage/day-usage.ts";

test("the usage of a key is the sum of its requests on each day in UTC, and of what a clock that was ahead has counted later", () => {
  const count = (usage: Usage, time: string, inMinute: number, further = {}, admitted = true) => {
    const minute = { limit: 60, remaining: 60 - inMinute };
    const day = { limit: 100, remaining: 99 - inMinute };
    const decision = { nowMs: Date.parse(time), admitted, minute, day } as Decision;
    return countUsage(usage, decision, { refused: 0, strikes: 0, bans: 0, ...further });
  };
  let usage = count([], "2026-11-20T23:59:59.999Z", 7, { refused: 4 });
  usage = count(usage, "2026-11-21T00:00:00Z", 1);
  usage = count(usage, "2028-01-01T00:00:00Z", 3);
  usage = count(usage, "2026-11-21T12:00:00Z", 5, { refused: 2, strikes: 3, bans: 1 }, false);
  const limits = { perMinute: 60, perDay: 100 };
  const first = { admitted: 1, refused: 4, strikes: 0, bans: 0, peakMinute: 7, peakDay: 8 };
  const next = { admitted: 2, refused: 3, strikes: 3, bans: 1, peakMinute: 5, peakDay: 6 };
  const dayNumber = Date.parse("2026-11-20T00:00:00Z") / 86_400_000;
  const expected = [
    { day: dayNumber, ...first, limits },
    { day: dayNumber + 1, ...next, limits },
  ];
  expect([usage, usageSchema.parse(usage)]).toStrictEqual([expected, expected]);
});
