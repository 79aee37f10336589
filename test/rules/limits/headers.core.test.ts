import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { quotaHeaders, retryAfterSeconds } from "../../../src/rules/limits/headers.ts";
import { PLAN_LIMITS } from "../../../src/rules/limits/plans.ts";
import { reportQuota } from "../../../src/rules/limits/quota-report.ts";
import { START_MS } from "./simulated-limiter.ts";

const START_SECONDS = START_MS / 1_000;
const NOW = { nowMs: START_MS, retryAtMs: null, banned: false };
const endsIn = (ms: number, limit: number, remaining: number) => {
  return { limit, remaining, endsMs: START_MS + ms };
};

test("plans have the documented limits (docs/limits.md, Plans)", () => {
  const row = /^\| (\w+) +\| ([\d,]+) +\| ([\d,]+) +\|$/gm;
  const rows = readFileSync("docs/limits.md", "utf8").matchAll(row);
  const documented = [...rows].map(([, plan = "", ...limits]) => {
    const [perMinute, perDay] = limits.map((limit) => Number(limit.replaceAll(",", "")));
    return [plan.toLowerCase(), { perMinute, perDay }];
  });
  expect(PLAN_LIMITS).toEqual(Object.fromEntries(documented));
});

// The rules below are those of docs/limits.md, Headers.

test("X-RateLimit describes the window with the fewest requests left; on a tie, the one that ends later; all durations are whole seconds, rounded up", () => {
  for (const [left, endsInMs, seconds, described] of [
    [4, 9_000, 9, "minute"],
    [6, 9_000, 9, "day"],
    [5, 98_999, 99, "day"],
    [5, 99_001, 100, "minute"],
    [0, 1_001, 2, "minute"],
  ] as const) {
    const shown = described === "minute" ? [60, left, seconds] : [1_000, 5, 99];
    const [limit, remaining, inSeconds] = shown as [number, number, number];
    const windows = { minute: endsIn(endsInMs, 60, left), day: endsIn(99_000, 1_000, 5) };
    expect(quotaHeaders({ ...NOW, ...windows })).toEqual({
      "X-RateLimit-Limit": String(limit),
      "X-RateLimit-Remaining": String(remaining),
      "X-RateLimit-Reset": String(START_SECONDS + inSeconds),
      "RateLimit-Policy": '"minute";q=60;w=60, "day";q=1000;w=86400',
      RateLimit: `"minute";r=${left};t=${seconds}, "day";r=5;t=99`,
    });
  }
  const windows = { minute: endsIn(1_000, 60, 1), day: endsIn(1_000, 9, 1) };
  const retryAfter = [null, START_MS + 1_000, START_MS + 1_001].map((retryAtMs) =>
    retryAfterSeconds({ ...NOW, ...windows, retryAtMs }),
  );
  expect(retryAfter).toEqual([1, 1, 2]);
});

test("during a ban, nothing is left until no window is full; a report also says when the ban ends", () => {
  const retryAtMs = START_MS + 3_000;
  const ban = { endsMs: START_MS + 1_500, number: 2 };
  const windows = { minute: endsIn(3_000, 60, 0), day: endsIn(86_400_000, 1_000, 9) };
  const banned = { ...NOW, ...windows, retryAtMs, banned: true, ban };
  expect(quotaHeaders(banned)).toMatchObject({
    "X-RateLimit-Limit": "60",
    "X-RateLimit-Remaining": "0",
    "X-RateLimit-Reset": String(START_SECONDS + 3),
    RateLimit: '"minute";r=0;t=3, "day";r=0;t=3',
  });
  const nothingLeft = { remaining: 0, resetsAt: new Date(retryAtMs) };
  expect(reportQuota(banned)).toEqual({
    windows: [
      { name: "minute", limit: 60, ...nothingLeft },
      { name: "day", limit: 1_000, ...nothingLeft },
    ],
    ban: { endsAt: new Date(ban.endsMs), number: 2 },
    retryAfterSeconds: 3,
  });
});
