import { beforeEach, describe, expect, test, vi } from "vitest";
import { DEFAULT_BANS, keyPolicy, MINUTE_MS, START_MS } from "../../limits/simulated-limiter.ts";
import {
  backsOff,
  type Client,
  type Draw,
  loops,
  seededRandom,
  waitsForRetryAfter,
} from "../../limits/traffic.ts";
import { World } from "./world.ts";

const FREE = keyPolicy(60, 1_000);
const SKEWS_MS = [0, -700, 12_000, 30, -1, 5_000, 0, 400, -60_000, 9];

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"] });
});

interface Traffic {
  readonly isolates: number;
  readonly minutes: number;
  readonly seed: number;
}

/** Simulates clients that share a Free key. Each request goes to a random isolate. */
async function share(
  clients: (draw: Draw) => readonly Client[],
  { isolates, minutes, seed }: Traffic,
) {
  const draw = seededRandom(seed);
  const world = new World(FREE, DEFAULT_BANS, SKEWS_MS.slice(0, isolates));
  let bannedAfterMs: number | null = null;
  const sendNext = (client: Client, afterMs: number): void =>
    world.at(Math.round(world.nowMs + afterMs), () => {
      const wire = { outMs: 1 + Math.floor(draw() * 40), backMs: 1 + Math.floor(draw() * 40) };
      const isolate = Math.floor(draw() * isolates);
      void world.send(isolate, { ...wire, fault: "none" }, ({ answer }) => {
        if (answer!.banned) bannedAfterMs ??= world.nowMs - START_MS;
        sendNext(client, client.next(answer!).value);
      });
    });
  for (const client of clients(draw)) sendNext(client, client.next().value);
  await world.advanceTo(START_MS + minutes * MINUTE_MS);
  const calls = world.decided.length;
  return { bannedAfterMs, requests: world.exchanges.length, calls };
}

describe("through several isolates, a well-behaved client is not banned (docs/limits.md, Bans)", () => {
  test.each([1, 2, 3])(
    "a fleet that waits for Retry-After, with as many workers as strikes lead to a ban, seed %i",
    async (seed) => {
      const fleet = (draw: Draw) =>
        Array.from({ length: 60 }, () =>
          waitsForRetryAfter(
            () => draw() * 100,
            () => 200 + draw() * 2_000,
          ),
        );
      const { bannedAfterMs, requests } = await share(fleet, { isolates: 4, minutes: 10, seed });
      expect(requests).toBeGreaterThan(900);
      expect(bannedAfterMs).toBeNull();
    },
  );

  test.each([
    ["with full jitter", true],
    ["without jitter", false],
  ])("a single client that doubles its wait from 0.1 to 5 seconds %s", async (_, jitter) => {
    const single = (draw: Draw) => [
      backsOff({ firstMs: 100, capMs: 5_000, jitter, paceMs: 50 }, draw),
    ];
    const { bannedAfterMs } = await share(single, { isolates: 4, minutes: 30, seed: 4 });
    expect(bannedAfterMs).toBeNull();
  });
});

describe("through several isolates, a loop is banned within a minute (docs/limits.md, Bans)", () => {
  test.each([
    [3, 1],
    [3, 3],
    [3, 10],
    [10, 10],
    [50, 3],
  ])("%i requests a second over %i isolates", async (perSecond, isolates) => {
    const { bannedAfterMs, requests, calls } = await share(() => [loops(perSecond)], {
      isolates,
      minutes: 1,
      seed: 5,
    });
    expect(bannedAfterMs).toBeLessThanOrEqual(MINUTE_MS);
    expect(calls).toBeLessThan(requests);
  });
});
