import { isDeepStrictEqual } from "node:util";
import { expect } from "vitest";
import type { Ban, BanPolicy } from "../../../src/rules/limits/bans.ts";
import { type Decided, peek } from "../../../src/rules/limits/decision.ts";
import type { QuotaPolicy } from "../../../src/rules/limits/limiter-state.ts";
import type { WaitReport } from "../../../src/rules/limits/strikes.ts";
import { mapWindows, type Window } from "../../../src/rules/limits/windows.ts";
import { DAY_MS, MINUTE_MS } from "../../support/clock.ts";

/** A request to the limiter of a key, and what was decided. */
export interface Asked {
  readonly policy: QuotaPolicy;
  readonly bans: BanPolicy;
  readonly nowMs: number;
  readonly report: WaitReport | null;
  readonly decided: Decided;
}

const LENGTH_MS = { minute: MINUTE_MS, day: DAY_MS };
const NEVER: Window = { openedMs: -Infinity, count: 0 };

/** Calls `expect` only if the values differ, because `expect` is slower than a decision. */
export function expectSame(actual: unknown, expected: unknown): void {
  if (!isDeepStrictEqual(actual, expected)) expect(actual).toStrictEqual(expected);
}

/** Every decision in a key's history follows from what was decided before (docs/limits.md). */
export function followsTheRules(history: readonly (Asked | "restart")[]): void {
  const known = {
    policy: null as QuotaPolicy | null,
    windows: { minute: NEVER, day: NEVER },
    wait: null as { beganMs: number; strikesMs: readonly number[] } | null,
    ban: null as Ban | null,
  };
  for (const one of history) {
    if (one === "restart") {
      known.wait = null;
      continue;
    }
    const { policy, bans, nowMs, report, decided } = one;
    const { mode, graceMs, strikeWindowMs, minStrikes, maxStrikes } = bans;
    const before = known.policy ?? policy;
    known.policy = policy.revision < before.revision ? before : policy;
    const limits = { minute: known.policy.limits.perMinute, day: known.policy.limits.perDay };
    if (policy.resets > before.resets) {
      Object.assign(known, { windows: { minute: NEVER, day: NEVER }, wait: null, ban: null });
    }

    // What lies ahead, because the clock was set back, begins now and keeps its length.
    const notAhead = (ms: number) => Math.min(ms, nowMs);
    known.windows = mapWindows((name) => {
      return { ...known.windows[name], openedMs: notAhead(known.windows[name].openedMs) };
    });
    const { beganMs = nowMs, strikesMs = [] } = known.wait ?? {};
    known.wait &&= { beganMs: notAhead(beganMs), strikesMs: strikesMs.map(notAhead) };
    const last = known.ban ?? { beganMs: 0, untilMs: 0, number: 0 };
    const latestMs = nowMs + Math.min(last.untilMs - last.beganMs, bans.longestBanMs);
    if (last.untilMs > latestMs) known.ban = { ...last, beganMs: nowMs, untilMs: latestMs };

    let open = mapWindows((name) => {
      const isOpen = nowMs < known.windows[name].openedMs + LENGTH_MS[name];
      return isOpen ? known.windows[name] : { openedMs: nowMs, count: 0 };
    });
    const remembered = () => {
      const { ban } = known;
      if (ban === null || nowMs >= ban.untilMs + bans.forgetAfterMs) return null;
      return mode === (ban.loggedOnly ? "log" : "on") ? ban : null;
    };
    const isBan = () => nowMs < (remembered()?.untilMs ?? 0);
    const toBan = ({ perMinute }: QuotaPolicy["limits"]) =>
      perMinute < minStrikes ? minStrikes : Math.min(perMinute, maxStrikes);

    let strikes = 0;
    let newBan: Ban | null = null;
    const strike = (times: number, atMs: number, enough: number) => {
      strikes += times;
      const wait = (known.wait ??= { beganMs: nowMs, strikesMs: [] });
      const isSameSeries = atMs - Math.min(...wait.strikesMs) < strikeWindowMs;
      const added = [...(isSameSeries ? wait.strikesMs : []), ...Array<number>(times).fill(atMs)];
      if (nowMs - Math.min(...added) < strikeWindowMs) wait.strikesMs = added;
      if (wait.strikesMs.length < enough) return;
      wait.strikesMs = [];
      const number = (remembered()?.number ?? 0) + 1;
      const lengthMs = Math.min(bans.firstBanMs * 2 ** (number - 1), bans.longestBanMs);
      newBan = { beganMs: nowMs, untilMs: nowMs + lengthMs, number };
      if (mode === "log") newBan = { ...newBan, loggedOnly: true };
      known.ban = newBan;
    };
    const hasRoom = open.minute.count < limits.minute && open.day.count < limits.day;
    const admitted = hasRoom && !(isBan() && mode === "on");
    if (admitted) {
      open = mapWindows((name) => ({ ...open[name], count: open[name].count + 1 }));
      Object.assign(known, { windows: open, wait: null });
    } else {
      if (report !== null && mode !== "off" && !isBan()) {
        // A report restores a lost wait, unless the wait began before a window was full.
        const fullSinceMs = Math.min(
          open.minute.count < before.limits.perMinute ? Infinity : open.minute.openedMs,
          open.day.count < before.limits.perDay ? Infinity : open.day.openedMs,
        );
        const sinceMs = nowMs - report.ageMs;
        if (sinceMs >= fullSinceMs) known.wait ??= { beganMs: sinceMs, strikesMs: [] };
        const oldestMs = nowMs - report.oldestStrikeAgeMs;
        const isLate = known.wait !== null && oldestMs - known.wait.beganMs >= graceMs;
        const times = isLate ? report.strikes : 0;
        if (known.wait !== null) strike(times, times > 0 ? oldestMs : nowMs, toBan(before.limits));
      }
      if (mode !== "off" && !isBan()) {
        const isStrike = known.wait !== null && nowMs - known.wait.beganMs >= graceMs;
        strike(isStrike ? 1 : 0, nowMs, toBan(known.policy.limits));
      }
    }

    const quotas = mapWindows((name) => ({
      limit: limits[name],
      remaining: Math.max(0, limits[name] - open[name].count),
      endsMs: open[name].openedMs + LENGTH_MS[name],
    }));
    const banned = isBan() && mode === "on";
    const full = Object.values(quotas).filter(({ remaining }) => remaining === 0);
    const ends = [...(banned ? [known.ban!.untilMs] : []), ...full.map(({ endsMs }) => endsMs)];
    const quota = { nowMs, ...quotas, retryAtMs: Math.max(0, ...ends) || null, banned };
    const { wait } = known;
    const forecast = wait !== null && {
      waitedSinceMs: wait.beganMs,
      countFromMs: wait.beganMs + graceMs,
      left: toBan(known.policy.limits) - wait.strikesMs.length,
    };
    expectSame(decided.decision, {
      ...quota,
      admitted,
      standsUntilMs: admitted ? null : banned ? known.ban!.untilMs : quota.retryAtMs,
      strikes: !admitted && mode !== "off" && !isBan() ? forecast : null,
    });
    expectSame({ strikes: decided.strikes, newBan: decided.newBan }, { strikes, newBan });
    expectSame(peek(decided.state, policy, bans, nowMs), quota);
  }
}
