import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import type { Quota } from "../../../src/rules/limits/decision.ts";
import { quotaHeaders, retryAfterSeconds } from "../../../src/rules/limits/headers.ts";
import { PLAN_LIMITS } from "../../../src/rules/limits/plans.ts";
import { reportQuota } from "../../../src/rules/limits/quota-report.ts";
import { START_MS } from "./simulated-limiter.ts";

const START_SECONDS = START_MS / 1_000;

type WindowNumbers = readonly [limit: number, remaining: number, endsInMs: number];

function quota(minute: WindowNumbers, day: WindowNumbers, retryAtMs: number | null = null): Quota {
  const of = ([limit, remaining, ms]: WindowNumbers) => ({
    limit,
    remaining,
    endsMs: START_MS + ms,
  });
  return { nowMs: START_MS, retryAtMs, banned: false, minute: of(minute), day: of(day) };
}

test("plans have the documented limits (docs/limits.md, Plans)", () => {
  const rows = readFileSync("docs/limits.md", "utf8").matchAll(
    /^\| (\w+) +\| ([\d,]+) +\| ([\d,]+) +\|$/gm,
  );
  const documented = [...rows].map(([, plan = "", ...limits]) => {
    const [perMinute, perDay] = limits.map((limit) => Number(limit.replaceAll(",", "")));
    return [plan.toLowerCase(), { perMinute, perDay }];
  });
  expect(PLAN_LIMITS).toEqual(Object.fromEntries(documented));
});

// The rules below are those of docs/limits.md, Headers.

test("X-RateLimit describes the window with the fewest requests left; on a tie, the one that ends later", () => {
  const DAY = [1_000, 5, 99_000] as const;
  for (const [minute, day, [limit, left, endsInMs]] of [
    [[60, 4, 9_000], DAY, [60, 4, 9_000]],
    [[60, 6, 9_000], DAY, DAY],
    [[60, 5, 98_999], DAY, DAY],
    [[60, 5, 99_001], DAY, [60, 5, 99_001]],
  ] as const) {
    expect(quotaHeaders(quota(minute, day))).toMatchObject({
      "X-RateLimit-Limit": String(limit),
      "X-RateLimit-Remaining": String(left),
      "X-RateLimit-Reset": String(START_SECONDS + Math.ceil(endsInMs / 1_000)),
    });
  }
});

test("durations are whole seconds, rounded up, in both forms of the headers; Retry-After is at least 1", () => {
  for (const [ms, seconds] of [
    [1_000, 1],
    [1_001, 2],
  ] as const) {
    const full = quota([60, 0, ms], [1_000, 9, 86_400_000], START_MS + ms);
    expect(quotaHeaders(full)).toEqual({
      "X-RateLimit-Limit": "60",
      "X-RateLimit-Remaining": "0",
      "X-RateLimit-Reset": String(START_SECONDS + seconds),
      "RateLimit-Policy": '"minute";q=60;w=60, "day";q=1000;w=86400',
      RateLimit: `"minute";r=0;t=${seconds}, "day";r=9;t=86400`,
    });
    expect(retryAfterSeconds(full)).toBe(seconds);
  }
  expect(retryAfterSeconds(quota([60, 1, 1_000], [9, 1, 1_000]))).toBe(1);
});

test("during a ban, nothing is left until no window is full; a report also says when the ban ends", () => {
  const until = START_MS + 3_000;
  const ban = { endsMs: START_MS + 1_500, number: 2 };
  const banned = { ...quota([60, 0, 3_000], [1_000, 9, 86_400_000], until), banned: true, ban };
  expect(quotaHeaders(banned)).toMatchObject({
    "X-RateLimit-Limit": "60",
    "X-RateLimit-Remaining": "0",
    "X-RateLimit-Reset": String(START_SECONDS + 3),
    RateLimit: '"minute";r=0;t=3, "day";r=0;t=3',
  });
  const nothingLeft = { remaining: 0, resetsAt: new Date(until) };
  expect(reportQuota(banned)).toEqual({
    windows: [
      { name: "minute", limit: 60, ...nothingLeft },
      { name: "day", limit: 1_000, ...nothingLeft },
    ],
    ban: { endsAt: new Date(ban.endsMs), number: 2 },
    retryAfterSeconds: 3,
  });
});
