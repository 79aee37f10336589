import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { Pacer } from "../../../src/client/pacer.ts";
import type { Decision } from "../../../src/worker/limit-rules/decision.ts";
import { retryAfterSeconds } from "../../../src/worker/limit-rules/headers.ts";
import { PLAN_LIMITS } from "../../../src/worker/limit-rules/plans.ts";
import { WINDOW_NAMES, WINDOW_SECONDS } from "../../../src/worker/limit-rules/windows.ts";
import { HOUR_MS, keyPolicy, SimulatedLimiter } from "./simulated-limiter.ts";
import {
  type Client,
  type Draw,
  retriesLikeTheClient,
  run,
  seededRandom,
  waitsWithJitter,
} from "./traffic.ts";

const { free, business } = PLAN_LIMITS;
const JITTER_MS = 10_000;

/** The default number of retries of the client package. */
const CLIENT_RETRIES = 5;

/**
 * Returns the limiter of a key whose day window never fills, so that only the minute window
 * refuses.
 */
const keyOf = ({ perMinute }: { perMinute: number }) =>
  new SimulatedLimiter(keyPolicy(perMinute, 1_000_000_000));

const latencyOf =
  (random: Draw): Draw =>
  () =>
    10 + random() * 500;

beforeEach(() => {
  vi.spyOn(Math, "random").mockImplementation(seededRandom(1));
});
afterEach(() => {
  vi.restoreAllMocks();
});

describe("a fleet that waits for Retry-After and jitters by up to 10 seconds is never banned", () => {
  test.for([70, 100, 180, 300, 400].flatMap((size) => [1, 2].map((seed) => [size, seed] as const)))(
    "%i workers on a Free key in 3 hours, seed %i",
    ([size, seed]) => {
      const random = seededRandom(seed);
      const fleet = Array.from({ length: size }, () =>
        waitsWithJitter(JITTER_MS, latencyOf(random), random),
      );
      const { bannedAfterMs, refused } = run(keyOf(free), fleet, 3 * HOUR_MS);
      expect(refused).toBeGreaterThan(size);
      expect(bannedAfterMs).toBeNull();
    },
  );

  test("3,000 workers on a Business key in an hour", () => {
    const random = seededRandom(3);
    const fleet = Array.from({ length: 3_000 }, () =>
      waitsWithJitter(JITTER_MS, latencyOf(random), random),
    );
    expect(run(keyOf(business), fleet, HOUR_MS).bannedAfterMs).toBeNull();
  });

  test("180 workers on a Free key would be banned with a grace of 2 seconds instead of 10", () => {
    const random = seededRandom(1);
    const limiter = keyOf(free);
    const earlier = new SimulatedLimiter(limiter.policy, { ...limiter.bans, graceMs: 2_000 });
    const fleet = Array.from({ length: 180 }, () =>
      waitsWithJitter(JITTER_MS, latencyOf(random), random),
    );
    expect(run(earlier, fleet, 3 * HOUR_MS).bannedAfterMs).not.toBeNull();
  });
});

describe("a fleet of 180 clients of the package on a Free key is never banned in 3 hours", () => {
  test("if the clients retry", () => {
    const random = seededRandom(1);
    const fleet = Array.from({ length: 180 }, () =>
      retriesLikeTheClient(CLIENT_RETRIES, latencyOf(random)),
    );
    expect(run(keyOf(free), fleet, 3 * HOUR_MS).bannedAfterMs).toBeNull();
  });

  test("if the clients pace themselves", () => {
    const random = seededRandom(1);
    const fleet = Array.from({ length: 180 }, () => pacesItself(latencyOf(random)));
    expect(run(keyOf(free), fleet, 3 * HOUR_MS).bannedAfterMs).toBeNull();
  });
});

/** A client that sends each request as soon as the npm package's `Pacer` allows it. */
function* pacesItself(latencyMs: Draw): Client {
  const pacer = new Pacer();
  let nowMs = 0;
  let waitMs = latencyMs();
  for (;;) {
    pacer.begin();
    const decision = yield waitMs;
    const answerMs = latencyMs();
    nowMs += waitMs;
    pacer.end(announcementOf(decision), nowMs + answerMs);
    const turn = pacer.turn(nowMs + answerMs);
    const sendMs = turn.kind === "at" ? turn.timeMs : nowMs + answerMs;
    waitMs = sendMs - nowMs + latencyMs();
  }
}

function announcementOf(decision: Decision) {
  const windows = WINDOW_NAMES.map((name) => ({
    name,
    limit: decision[name].limit,
    lengthSeconds: WINDOW_SECONDS[name],
    remaining: decision[name].remaining,
    resetSeconds: Math.ceil((decision[name].endsMs - decision.nowMs) / 1_000),
  }));
  return {
    windows,
    retryAfterSeconds: decision.admitted ? null : retryAfterSeconds(decision),
  };
}
