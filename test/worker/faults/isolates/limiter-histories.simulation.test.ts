import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { beforeEach, describe, expect, test, vi } from "vitest";
import type { Decision } from "../../../../src/worker/limits/decision.ts";
import { quotaHeaders, retryAfterSeconds } from "../../../../src/worker/limits/headers.ts";
import { LimitsModel } from "../../limits/limits-model.ts";
import { anyBanPolicy, anyLimits } from "../../limits/histories.ts";
import { Account } from "./account.ts";
import { type Exchange, World } from "./world.ts";
import { anyHistory, anyOrderlyHistory, ISOLATES, play } from "./world-histories.ts";

const anySkews = fc.array(fc.constantFrom(0, 0, -1, 137, -5_000, 40_000), {
  minLength: ISOLATES,
  maxLength: ISOLATES,
});

const anySetting = fc.record({ limits: anyLimits, bans: anyBanPolicy, skewsMs: anySkews });
type Setting = typeof anySetting extends fc.Arbitrary<infer T> ? T : never;

function newWorld({ limits, bans, skewsMs }: Setting): World {
  return new World({ limits, revision: 1, resets: 0, bans: true }, bans, skewsMs);
}

// The tests call `expect` only for a difference, because a call takes longer than a decision.

/** The timeout of each test. A test takes one or two seconds, but longer on a busy machine. */
const TIMEOUT_MS = 60_000;

const PERFECT = { outMs: 0, backMs: 0, fault: "none" } as const;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"] });
  vi.spyOn(console, "warn").mockReturnValue();
});

describe("with several isolates, late and failing calls, evictions and changes of plan", () => {
  const RUNS = { numRuns: 400 };

  test(
    "the Durable Object admits exactly as many requests as the windows have room for; the fallback limiter admits no more",
    async () => {
      let decided = 0;
      await fc.assert(
        fc.asyncProperty(anySetting, anyHistory, async (setting, history) => {
          const world = newWorld(setting);
          await play(world, history);
          await world.drain();
          decided += world.decided.length;
          const object = new Account();
          for (const { policy, atMs, admitted, banned } of world.decided) {
            const hasRoom = object.hasRoom(policy, atMs);
            if (!banned && admitted !== hasRoom) expect(admitted).toBe(hasRoom);
            if (admitted) object.admit(atMs);
          }
          const byFallback = world.exchanges.filter(({ by }) => by === "fallback");
          const lives = Map.groupBy(byFallback, ({ isolate, life }) => `${isolate}.${life}`);
          for (const exchanges of lives.values()) {
            const account = new Account();
            for (const { policy, answer } of byTimeOfAnswer(exchanges)) {
              const hasRoom = account.hasRoom(policy, answer!.nowMs);
              if (!answer!.admitted) continue;
              if (!hasRoom) expect(hasRoom).toBe(true);
              account.admit(answer!.nowMs);
            }
          }
        }),
        RUNS,
      );
      expect(decided).toBeGreaterThan(3_000);
    },
    TIMEOUT_MS,
  );

  test(
    "a refusal from memory has the same headers as a refusal by the Durable Object",
    async () => {
      let compared = 0;
      await fc.assert(
        fc.asyncProperty(anySetting, anyHistory, async (setting, history) => {
          const world = newWorld(setting);
          await play(world, history);
          await world.drain();
          for (const exchange of world.exchanges) {
            const { by, policy, known, foreseen, foreseenBefore, answer } = exchange;
            if (by !== "memory") continue;
            expect(answer!.admitted).toBe(false);
            // Skip: the Durable Object knows a newer policy than this isolate, which learns of the
            // newer policy within 30 seconds.
            if (known.revision > policy.revision || known.resets > policy.resets) continue;
            expect(foreseen.admitted).toBe(false);
            // Skip: refusals by other isolates have led to a ban that this isolate does not know
            // yet.
            if (foreseen.banned && !answer!.banned) continue;
            compared += 1;
            const { text, seconds } = headersOf(answer!);
            const expected = [foreseen, ...foreseenBefore]
              .map(headersOf)
              .find((other) => isDeepStrictEqual(other.text, text));
            if (expected === undefined) expect.fail(`no such headers: ${JSON.stringify(text)}`);
            // The latency of a call may change rounded durations by one second.
            seconds.forEach((second, index) => {
              const difference = Math.abs(second - expected.seconds[index]!);
              if (difference > 1) expect(difference).toBeLessThanOrEqual(1);
            });
          }
        }),
        RUNS,
      );
      expect(compared).toBeGreaterThan(100);
    },
    TIMEOUT_MS,
  );

  test(
    "a client that is the only one and waits exactly Retry-After is admitted",
    async () => {
      const anyEnd = fc.record({ told: fc.nat(ISOLATES - 1), asked: fc.nat(ISOLATES - 1) });
      let waited = 0;
      await fc.assert(
        fc.asyncProperty(anySetting, anyHistory, anyEnd, async (setting, history, end) => {
          const world = newWorld(setting);
          await play(world, history);
          await world.drain();
          world.isolates.forEach((_, index) => world.learn(index));
          // Wait until every isolate calls the Durable Object again. For one second after a failed
          // call, an isolate uses its fallback limiter, which does not know the windows.
          await world.advanceTo(world.nowMs + 1_000);
          const refusal = await ask(world, end.told);
          if (refusal.answer!.admitted) return;
          // Skip: refusals by other isolates have led to a ban that this isolate does not know yet.
          if (refusal.foreseen.banned && !refusal.answer!.banned) return;
          waited += 1;
          await world.advanceTo(world.nowMs + retryAfterSeconds(refusal.answer!) * 1_000);
          const { answer } = await ask(world, end.asked);
          expect(answer).toMatchObject({ admitted: true });
        }),
        RUNS,
      );
      expect(waited).toBeGreaterThan(50);
    },
    TIMEOUT_MS,
  );
});

describe("refusals from memory", () => {
  test(
    "are reported at most once, and all of them if no call fails",
    async () => {
      let reported = 0;
      await fc.assert(
        fc.asyncProperty(anySetting, anyHistory, async (setting, history) => {
          const world = newWorld(setting);
          await play(world, history);
          await world.drain();
          expect(world.reportedRefusals).toBeLessThanOrEqual(fromMemory(world));
        }),
        { numRuns: 200 },
      );
      await fc.assert(
        fc.asyncProperty(anySetting, anyOrderlyHistory, async (setting, history) => {
          const world = newWorld({ ...setting, skewsMs: [0] });
          await play(world, history, { atOnce: true });
          // After two days, all refusals have expired. So the next request calls the Durable Object
          // and reports the remaining refusals.
          await world.advanceTo(world.nowMs + 2 * 86_400_000);
          await ask(world, 0);
          expect(world.reportedRefusals).toBe(fromMemory(world));
          reported += world.reportedRefusals;
        }),
        { numRuns: 200 },
      );
      expect(reported).toBeGreaterThan(100);
    },
    TIMEOUT_MS,
  );
});

describe("one isolate, one request after another", () => {
  test(
    "gets exactly the same decisions as from the reference model",
    async () => {
      const seen = { bans: 0, memory: 0 };
      await fc.assert(
        fc.asyncProperty(anySetting, anyOrderlyHistory, async (setting, history) => {
          const world = newWorld({ ...setting, skewsMs: [0] });
          await play(world, history, { atOnce: true });
          const model = new LimitsModel(setting.bans);
          for (const { policy, sentMs, answer, by } of world.exchanges) {
            const { admitted, banned, minute, day, retryAtMs } = answer!;
            const decided = { admitted, banned, minute, day, retryAtMs };
            const expected = model.request(policy, sentMs);
            if (!isDeepStrictEqual(decided, expected)) expect(decided).toStrictEqual(expected);
            seen.bans += Number(banned);
            seen.memory += Number(by === "memory");
          }
        }),
        { numRuns: 800 },
      );
      expect(seen.bans).toBeGreaterThan(100);
      expect(seen.memory).toBeGreaterThan(100);
    },
    TIMEOUT_MS,
  );
});

function fromMemory({ exchanges }: World): number {
  return exchanges.filter(({ by }) => by === "memory").length;
}

async function ask(world: World, isolate: number): Promise<Exchange> {
  await world.send(isolate, PERFECT);
  await world.drain();
  return world.exchanges.at(-1)!;
}

function byTimeOfAnswer(exchanges: readonly Exchange[]): Exchange[] {
  return exchanges.toSorted((first, second) => first.answeredMs - second.answeredMs);
}

/** Splits the rate-limit headers of a decision into durations in seconds and everything else. */
function headersOf(decision: Decision) {
  const { RateLimit: rateLimit = "", ...headers } = quotaHeaders(decision);
  const seconds = [...rateLimit.matchAll(/t=(-?\d+)/g)].map(([, text]) => Number(text));
  const left = rateLimit.replaceAll(/t=-?\d+/g, "");
  return {
    text: { ...headers, left, banned: decision.banned },
    seconds: [...seconds, retryAfterSeconds(decision)],
  };
}
