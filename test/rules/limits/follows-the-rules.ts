import { isDeepStrictEqual } from "node:util";
import { expect } from "vitest";
import type { Ban, BanPolicy } from "../../../src/rules/limits/bans.ts";
import { type Decided, peek } from "../../../src/rules/limits/decision.ts";
import type { QuotaPolicy } from "../../../src/rules/limits/limiter-state.ts";
import type { WaitReport } from "../../../src/rules/limits/strikes.ts";
import { mapWindows } from "../../../src/rules/limits/windows.ts";
import { DAY_MS, MINUTE_MS } from "../../support/clock.ts";

/** A request to the limiter of a key and what was decided, or a restart, which loses the wait. */
export type Happening =
  | "restart"
  | {
      readonly policy: QuotaPolicy;
      readonly bans: BanPolicy;
      readonly nowMs: number;
      readonly report: WaitReport | null;
      readonly decided: Decided;
    };

const NEVER_OPENED = { openedMs: -Infinity, count: 0 };

const LENGTH_MS = { minute: MINUTE_MS, day: DAY_MS };

/** Calls `expect` only if the values differ, because `expect` is slower than a decision. */
export function expectSame(actual: unknown, expected: unknown): void {
  if (!isDeepStrictEqual(actual, expected)) expect(actual).toStrictEqual(expected);
}

/** Every decision in a key's history follows from what was decided before (docs/limits.md). */
export function followsTheRules(history: readonly Happening[]): void {
  let version: QuotaPolicy | null = null;
  let windows = mapWindows(() => NEVER_OPENED);
  let wait: { readonly beganMs: number; readonly strikesMs: readonly number[] } | null = null;
  let lastBan: Ban | null = null;
  for (const one of history) {
    if (one === "restart") {
      wait = null;
      continue;
    }
    const { policy, bans, nowMs, report, decided } = one;
    const { mode, graceMs, strikeWindowMs } = bans;
    const known: QuotaPolicy = version ?? policy;
    version = policy.revision < known.revision ? known : policy;
    const limits = { minute: version.limits.perMinute, day: version.limits.perDay };
    if (policy.resets > known.resets) {
      windows = mapWindows(() => NEVER_OPENED);
      wait = lastBan = null;
    }

    // What lies ahead, because the clock was set back, begins now and keeps its length.
    const notAhead = (ms: number) => Math.min(ms, nowMs);
    windows = mapWindows((name) => {
      return { ...windows[name], openedMs: notAhead(windows[name].openedMs) };
    });
    let open = mapWindows((name) => {
      const isOpen = nowMs < windows[name].openedMs + LENGTH_MS[name];
      return isOpen ? windows[name] : { openedMs: nowMs, count: 0 };
    });
    wait = wait && { beganMs: notAhead(wait.beganMs), strikesMs: wait.strikesMs.map(notAhead) };
    if (lastBan !== null) {
      const { beganMs, untilMs } = lastBan;
      const latestMs = nowMs + Math.min(untilMs - beganMs, bans.longestBanMs);
      if (untilMs > latestMs) lastBan = { ...lastBan, beganMs: nowMs, untilMs: latestMs };
    }
    const remembered = () =>
      lastBan !== null &&
      mode === (lastBan.loggedOnly ? "log" : "on") &&
      nowMs < lastBan.untilMs + bans.forgetAfterMs
        ? lastBan
        : null;
    const endOfBanMs = () => ((remembered()?.untilMs ?? 0) > nowMs ? lastBan!.untilMs : 0);

    let strikes = 0;
    let newBan: Ban | null = null;
    const strike = (times: number, atMs: number, perMinute: number) => {
      strikes += times;
      const { beganMs, strikesMs } = wait!;
      const isNewSeries = strikesMs.length > 0 && atMs - Math.min(...strikesMs) >= strikeWindowMs;
      const added = [...(isNewSeries ? [] : strikesMs), ...Array<number>(times).fill(atMs)];
      if (nowMs - Math.min(...added) < strikeWindowMs) wait = { beganMs, strikesMs: added };
      if (wait!.strikesMs.length < enough(bans, perMinute)) return;
      const number = (remembered()?.number ?? 0) + 1;
      const lengthMs = Math.min(bans.firstBanMs * 2 ** (number - 1), bans.longestBanMs);
      newBan = lastBan = { beganMs: nowMs, untilMs: nowMs + lengthMs, number };
      if (mode === "log") newBan = lastBan = { ...lastBan, loggedOnly: true };
      wait = { beganMs, strikesMs: [] };
    };
    const hasRoom = open.minute.count < limits.minute && open.day.count < limits.day;
    const admitted = hasRoom && (mode !== "on" || endOfBanMs() === 0);
    if (admitted) {
      windows = open = mapWindows((name) => ({ ...open[name], count: open[name].count + 1 }));
      wait = null;
    } else {
      const isCounting = () => mode !== "off" && endOfBanMs() === 0;
      if (report !== null && isCounting()) {
        // A report restores a lost wait, unless the wait began before the window was full.
        const { perMinute, perDay } = known.limits;
        const fullSinceMs = [
          open.minute.count < perMinute ? Infinity : open.minute.openedMs,
          open.day.count < perDay ? Infinity : open.day.openedMs,
        ];
        const beganMs = nowMs - report.ageMs;
        if (beganMs >= Math.min(...fullSinceMs)) wait ??= { beganMs, strikesMs: [] };
        const oldestMs = nowMs - report.oldestStrikeAgeMs;
        if (wait !== null) {
          const isStrike = report.strikes > 0 && oldestMs - wait.beganMs >= graceMs;
          strike(isStrike ? report.strikes : 0, isStrike ? oldestMs : nowMs, perMinute);
        }
      }
      if (isCounting()) {
        wait ??= { beganMs: nowMs, strikesMs: [] };
        strike(nowMs - wait.beganMs >= graceMs ? 1 : 0, nowMs, limits.minute);
      }
    }

    const quotas = mapWindows((name) => ({
      limit: limits[name],
      remaining: Math.max(0, limits[name] - open[name].count),
      endsMs: open[name].openedMs + LENGTH_MS[name],
    }));
    const bannedUntilMs = mode === "on" ? endOfBanMs() : 0;
    const full = Object.values(quotas).filter(({ remaining }) => remaining === 0);
    const retryAtMs = Math.max(bannedUntilMs, ...full.map(({ endsMs }) => endsMs)) || null;
    const quota = { nowMs, ...quotas, retryAtMs, banned: bannedUntilMs > 0 };
    const forecast = {
      waitedSinceMs: wait?.beganMs,
      countFromMs: (wait?.beganMs ?? 0) + graceMs,
      left: enough(bans, limits.minute) - (wait?.strikesMs.length ?? 0),
    };
    const isForecast = !admitted && mode !== "off" && endOfBanMs() === 0;
    expectSame(decided.decision, {
      ...quota,
      admitted,
      standsUntilMs: admitted ? null : bannedUntilMs || retryAtMs,
      strikes: isForecast ? forecast : null,
    });
    expectSame({ strikes: decided.strikes, newBan: decided.newBan }, { strikes, newBan });
    expectSame(peek(decided.state, policy, bans, nowMs), quota);
  }
}

/** The number of strikes that lead to a ban. */
function enough({ minStrikes, maxStrikes }: BanPolicy, perMinute: number): number {
  return perMinute < minStrikes ? minStrikes : Math.min(perMinute, maxStrikes);
}
