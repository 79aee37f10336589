import { describe, expect, test } from "vitest";
import { DEFAULT_BANS, keyPolicy, MINUTE_MS } from "../limit-rules/simulated-limiter.ts";
import {
  backsOff,
  type Client,
  type Draw,
  loops,
  seededRandom,
  waitsForRetryAfter,
} from "../limit-rules/traffic.ts";
import { simulateTime, World } from "./world.ts";

const FREE = keyPolicy(60, 1_000);
const SKEWS_MS = [0, -700, 12_000, 30, -1, 5_000, 0, 400, -60_000, 9];

/** Cloudflare can evict a Durable Object after this time without a request. */
const IDLE_MS = 10_000;

simulateTime();

/** Simulates clients that share a Free key. Each request goes to a random isolate. */
async function share(
  clients: (draw: Draw) => readonly Client[],
  { isolates, minutes }: { readonly isolates: number; readonly minutes: number },
) {
  const draw = seededRandom(5);
  const world = new World(FREE, DEFAULT_BANS, SKEWS_MS.slice(0, isolates));
  const startMs = world.nowMs;
  const endMs = startMs + minutes * MINUTE_MS;
  let bannedAfterMs: number | null = null;
  const run = async (client: Client) => {
    let waitMs = client.next().value;
    while (world.nowMs + waitMs < endMs) {
      await new Promise((resolve) => void setTimeout(resolve, Math.round(waitMs)));
      if (world.nowMs - world.calledMs > IDLE_MS) world.kill();
      const [outMs, backMs] = [1 + Math.floor(draw() * 40), 1 + Math.floor(draw() * 40)];
      world.wires = [{ fate: "answer", outMs, backMs }];
      const { decision } = await world.send(Math.floor(draw() * isolates));
      if (decision!.banned) bannedAfterMs ??= world.nowMs - startMs;
      waitMs = client.next(decision!).value;
    }
  };
  for (const client of clients(draw)) void run(client);
  await world.advance(minutes * MINUTE_MS);
  return { bannedAfterMs, requests: world.exchanges.length, calls: world.calls };
}

describe("through several isolates that an evicted Durable Object serves (docs/limits.md, Bans)", () => {
  test("a fleet that waits for Retry-After, with as many workers as strikes lead to a ban, is not banned", async () => {
    const fleet = (draw: Draw) =>
      Array.from({ length: 60 }, () =>
        waitsForRetryAfter({ latencyMs: () => draw() * 100, workMs: () => 200 + draw() * 2_000 }),
      );
    const { bannedAfterMs, requests } = await share(fleet, { isolates: 4, minutes: 10 });
    expect(requests).toBeGreaterThan(900);
    expect(bannedAfterMs).toBeNull();
  });

  test.each([
    [1, true],
    [10, false],
  ])(
    "a single client that doubles its wait from 0.1 to 5 seconds over %i isolates is not banned, full jitter: %s",
    async (isolates, jitter) => {
      const single = (draw: Draw) => [
        backsOff({ firstMs: 100, capMs: 5_000, jitter, paceMs: 50 }, draw),
      ];
      const { bannedAfterMs } = await share(single, { isolates, minutes: 20 });
      expect(bannedAfterMs).toBeNull();
    },
  );

  test.each([
    [3, 1],
    [3, 10],
    [50, 10],
  ])(
    "a loop of %i requests a second over %i isolates is banned within a minute",
    async (rate, isolates) => {
      const traffic = { isolates, minutes: 1 };
      const { bannedAfterMs, requests, calls } = await share(() => [loops(rate)], traffic);
      expect(bannedAfterMs).toBeLessThanOrEqual(MINUTE_MS);
      expect(calls).toBeLessThan(requests);
    },
  );
});
