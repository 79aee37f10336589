import { expect, test } from "vitest";
import { DEFAULT_BANS, keyPolicy } from "../../rules/limits/simulated-limiter.ts";
import {
  backsOff,
  type Client,
  type Draw,
  loops,
  seededRandom,
  waitsForRetryAfter,
} from "../../rules/limits/traffic.ts";
import { simulateTime, World } from "./world.ts";
import { MINUTE_MS } from "../../support/clock.ts";

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
  let requests = 0;
  const run = async (client: Client) => {
    let waitMs = client.next().value;
    while (world.nowMs + waitMs < endMs) {
      await new Promise((resolve) => void setTimeout(resolve, Math.round(waitMs)));
      if (world.nowMs - world.lastAttemptMs > IDLE_MS) world.kill();
      const [outMs, backMs] = [1 + Math.floor(draw() * 40), 1 + Math.floor(draw() * 40)];
      world.wires = [{ fate: "answer", outMs, backMs }];
      const { decision } = await world.send(Math.floor(draw() * isolates));
      if (decision!.banned) bannedAfterMs ??= world.nowMs - startMs;
      requests += 1;
      waitMs = client.next(decision!).value;
    }
  };
  for (const client of clients(draw)) void run(client);
  await world.advance(minutes * MINUTE_MS);
  return { bannedAfterMs, requests, calls: world.attempts };
}

const fleet = (draw: Draw) =>
  Array.from({ length: 60 }, () =>
    waitsForRetryAfter({ latencyMs: () => draw() * 100, workMs: () => 200 + draw() * 2_000 }),
  );

const single = (jitter: boolean) => (draw: Draw) => [
  backsOff({ firstMs: 100, capMs: 5_000, jitter, paceMs: 50 }, draw),
];

// The rules are those of docs/limits.md, Bans.
test.each([
  [
    "a fleet of as many workers as strikes lead to a ban, which waits for Retry-After",
    fleet,
    4,
    10,
  ],
  ["a client that doubles its wait from 0.1 to 5 seconds, with full jitter", single(true), 1, 20],
  ["a client that doubles its wait from 0.1 to 5 seconds", single(false), 10, 20],
] as const)(
  "%s is not banned through isolates and an evicted Durable Object",
  async (_, clients, isolates, minutes) => {
    const { bannedAfterMs, requests } = await share(clients, { isolates, minutes });
    expect(requests).toBeGreaterThan(300);
    expect(bannedAfterMs).toBeNull();
  },
);

test.each([
  [3, 1],
  [3, 10],
  [50, 10],
])("a loop of %i requests a second over %i isolates is banned within a minute", async (rate, n) => {
  const { bannedAfterMs, requests, calls } = await share(() => [loops(rate)], {
    isolates: n,
    minutes: 1,
  });
  expect(bannedAfterMs).toBeLessThanOrEqual(MINUTE_MS);
  expect(calls).toBeLessThan(requests);
});
