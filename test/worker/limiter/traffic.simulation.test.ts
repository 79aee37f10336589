import { expect, test } from "vitest";
import { keyPolicy } from "../../rules/limits/simulated-limiter.ts";
import { doubling, loop, patient, requestsOf, seededRandom } from "../../rules/limits/traffic.ts";
import { simulateTime, World } from "./world.ts";
import { MINUTE_MS } from "../../support/clock.ts";

const SKEWS_MS = [0, -700, 12_000, 30, -1, 5_000, 0, 400, -60_000, 9];

/** Cloudflare can evict a Durable Object after this time without a request. */
const IDLE_MS = 10_000;

const draw = seededRandom(5);
const worker = () => patient({ latencyMs: () => draw() * 100, workMs: () => 200 + draw() * 2_000 });

simulateTime();

// The rules are those of docs/limits.md, Bans.
test.each([
  ["a fleet of as many workers as strikes lead to a ban", 4, Array.from({ length: 60 }, worker)],
  ["a client that doubles its wait, with full jitter,", 1, [doubling(100, 5_000, draw, 50)]],
  ["a client that doubles its wait", 10, [doubling(100, 5_000, () => 1, 50)]],
  ["a loop of 3 requests a second", 1, [loop(3)]],
  ["a loop of 3 requests a second", 10, [loop(3)]],
  ["a loop of 50 requests a second", 10, [loop(50)]],
] as const)(
  "only a loop is banned, within a minute: %s over %i isolates",
  async (name, isolates, clients) => {
    const isLoop = name.includes("loop");
    const world = new World(keyPolicy(60, 1_000), SKEWS_MS.slice(0, isolates));
    const startMs = world.nowMs;
    const endMs = startMs + (isLoop ? 1 : 10) * MINUTE_MS;
    let lastMs = startMs;
    let bannedAfterMs: number | null = null;
    for (const client of clients) {
      const requests = requestsOf(client);
      const run = async (waitMs: number): Promise<void> => {
        await new Promise((resolve) => void setTimeout(resolve, Math.round(waitMs)));
        if (world.nowMs - lastMs > IDLE_MS) world.kill();
        const [outMs, backMs] = [1 + Math.floor(draw() * 40), 1 + Math.floor(draw() * 40)];
        world.wires = [{ fate: "answer", outMs, backMs }];
        const { decision, decidedBy } = await world.send(Math.floor(draw() * isolates));
        if (decidedBy !== "memory") lastMs = world.nowMs;
        if (decision!.banned) bannedAfterMs ??= world.nowMs - startMs;
        const nextMs = requests.next(decision!).value;
        if (world.nowMs + nextMs < endMs) await run(nextMs);
      };
      void run(requests.next().value);
    }
    await world.advance(endMs - startMs);
    const [requests, calls] = ["response", "arrival"].map(
      (what) => world.history.filter((one) => one.what === what).length,
    );
    expect(requests).toBeGreaterThan(isLoop ? 100 : 300);
    expect(calls).toBeLessThan(requests!);
    if (isLoop) expect(bannedAfterMs).toBeLessThanOrEqual(MINUTE_MS);
    else expect(bannedAfterMs).toBeNull();
  },
);
