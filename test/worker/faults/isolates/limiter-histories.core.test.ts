import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { beforeEach, describe, expect, test, vi } from "vitest";
import type { Decision } from "../../../../src/worker/limits/decision.ts";
import { quotaHeaders, retryAfterSeconds } from "../../../../src/worker/limits/headers.ts";
import { ContractModel } from "../../limits/contract-model.ts";
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

/** The histories take a second or two; the machine may be busy. */
const TIMEOUT_MS = 60_000;

const PERFECT = { outMs: 0, backMs: 0, fault: "none" } as const;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"] });
  vi.spyOn(console, "warn").mockReturnValue();
});

describe("several isolates, late and failing calls, evictions, changes of plan", () => {
  const RUNS = { numRuns: 400 };

  test(
    "the object admits whom the windows have room for and no one else; the insurance no more",
    async () => {
      let decided = 0;
      await fc.assert(
        fc.asyncProperty(anySetting, anyHistory, async (setting, history) => {
          const world = newWorld(setting);
          await play(world, history);
          await world.drain();
          decided += world.decided.length;
          const object = new Account();
          for (const { policy, atMs, decision } of world.decided) {
            const hasRoom = object.hasRoom(policy, atMs);
            if (!decision.banned) expect(decision.admitted).toBe(hasRoom);
            if (decision.admitted) object.admit(atMs);
          }
          const insured = world.exchanges.filter(({ by }) => by === "insurance");
          const lives = Map.groupBy(insured, ({ isolate, life }) => `${isolate}.${life}`);
          for (const exchanges of lives.values()) {
            const insurance = new Account();
            for (const { policy, answer } of byTimeOfAnswer(exchanges)) {
              const hasRoom = insurance.hasRoom(policy, answer!.nowMs);
              if (!answer!.admitted) continue;
              expect(hasRoom).toBe(true);
              insurance.admit(answer!.nowMs);
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
    "what is refused from memory the object would refuse in the same words",
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
            // A change or a reset that another isolate has brought is met within 30 seconds.
            if (known.revision > policy.revision || known.resets > policy.resets) continue;
            expect(foreseen.admitted).toBe(false);
            // What others did may have led to a ban that this isolate has yet to hear of.
            if (foreseen.banned && !answer!.banned) continue;
            compared += 1;
            const { words, seconds } = wordsOf(answer!);
            const expected = [foreseen, ...foreseenBefore]
              .map(wordsOf)
              .find((other) => isDeepStrictEqual(other.words, words));
            expect(expected?.words).toStrictEqual(words);
            // The latency of one call may show in the rounding of a second.
            seconds.forEach((second, index) => {
              expect(Math.abs(second - expected!.seconds[index]!)).toBeLessThanOrEqual(1);
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
    "whoever waits exactly Retry-After, alone, is admitted",
    async () => {
      const anyEnd = fc.record({ told: fc.nat(ISOLATES - 1), asked: fc.nat(ISOLATES - 1) });
      let waited = 0;
      await fc.assert(
        fc.asyncProperty(anySetting, anyHistory, anyEnd, async (setting, history, end) => {
          const world = newWorld(setting);
          await play(world, history);
          await world.drain();
          world.isolates.forEach((_, index) => world.learn(index));
          // By then every isolate asks the object again; the insurance does not know its windows.
          await world.advanceTo(world.nowMs + 1_000);
          const refusal = await ask(world, end.told);
          if (refusal.answer!.admitted) return;
          // A ban that came of what others did is not known to every isolate at once.
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

describe("what isolates refused from memory", () => {
  test(
    "is told of at most once, and in full where nothing is lost on the way",
    async () => {
      let told = 0;
      await fc.assert(
        fc.asyncProperty(anySetting, anyHistory, async (setting, history) => {
          const world = newWorld(setting);
          await play(world, history);
          await world.drain();
          expect(world.toldRefused).toBeLessThanOrEqual(fromMemory(world));
        }),
        { numRuns: 200 },
      );
      await fc.assert(
        fc.asyncProperty(anySetting, anyOrderlyHistory, async (setting, history) => {
          const world = newWorld({ ...setting, skewsMs: [0] });
          await play(world, history, { atOnce: true });
          // By then no refusal stands, so that the next request goes to the object.
          await world.advanceTo(world.nowMs + 2 * 86_400_000);
          await ask(world, 0);
          expect(world.toldRefused).toBe(fromMemory(world));
          told += world.toldRefused;
        }),
        { numRuns: 200 },
      );
      expect(told).toBeGreaterThan(100);
    },
    TIMEOUT_MS,
  );
});

describe("one isolate, one request after another", () => {
  test(
    "is answered as the contract says, to the strike",
    async () => {
      const seen = { bans: 0, memory: 0 };
      await fc.assert(
        fc.asyncProperty(anySetting, anyOrderlyHistory, async (setting, history) => {
          const world = newWorld({ ...setting, skewsMs: [0] });
          await play(world, history, { atOnce: true });
          const model = new ContractModel(setting.bans);
          for (const { policy, sentMs, answer, by } of world.exchanges) {
            const { admitted, banned, minute, day, retryAtMs } = answer!;
            expect({ admitted, banned, minute, day, retryAtMs }).toStrictEqual(
              model.request(policy, sentMs),
            );
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

/** The headers of an answer, with the durations in them apart. */
function wordsOf(decision: Decision) {
  const { RateLimit: rateLimit = "", ...headers } = quotaHeaders(decision);
  const seconds = [...rateLimit.matchAll(/t=(-?\d+)/g)].map(([, text]) => Number(text));
  const left = rateLimit.replaceAll(/t=-?\d+/g, "");
  return {
    words: { ...headers, left, banned: decision.banned },
    seconds: [...seconds, retryAfterSeconds(decision)],
  };
}
