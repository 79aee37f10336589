import { describe, expect, test } from "vitest";
import { quotaHeaders } from "../../../src/worker/limits/headers.ts";
import { Isolates } from "./isolates.ts";
import { HOUR_MS, keyPolicy, MINUTE_MS } from "../limits/simulated-limiter.ts";
import { backsOff, loops, run, seededRandom, waitsForRetryAfter } from "../limits/traffic.ts";

describe("refusals repeated by isolates (docs/limits.md, When parts fail)", () => {
  test("a window that has ended since the refusal is described as if it opened now", () => {
    const isolate = new Isolates(keyPolicy(60, 10), 1);
    isolate.requests(11);
    isolate.advance(5 * MINUTE_MS);
    expect(quotaHeaders(isolate.request())["RateLimit"]).toBe(
      '"minute";r=60;t=60, "day";r=0;t=86100',
    );
  });

  test("after a ban, a day window that is still full refuses requests, and strikes count again", () => {
    const isolate = new Isolates(keyPolicy(60, 60), 1);
    isolate.requests(61);
    isolate.advance(10_000).requests(60);
    expect(isolate.request().banned).toBe(true);
    isolate.advance(MINUTE_MS);
    expect(isolate.request()).toMatchObject({ admitted: false, banned: false });
    isolate.advance(1_000).requests(60);
    expect(isolate.request().banned).toBe(true);
  });

  /** Cloudflare can evict a Durable Object after this time without a request. */
  const IDLE_MS = 10_000;

  const spreads = [1, 2, 4, 8, 16].flatMap((count) =>
    [3, 5, 50].map((rate) => [rate, count] as const),
  );
  test.for(spreads)(
    "a loop at %i requests a second is banned within a minute through %i isolates",
    ([rate, count]) => {
      const isolates = new Isolates(keyPolicy(60, 1_000), count);
      expect(run(isolates, [loops(rate)], MINUTE_MS).bannedAfterMs).not.toBeNull();
    },
  );

  test.for(spreads)(
    "a loop at %i requests a second is banned through %i isolates, although the idle Durable Object is evicted",
    ([rate, count]) => {
      const isolates = new Isolates(keyPolicy(60, 1_000), count, { idleMs: IDLE_MS });
      expect(run(isolates, [loops(rate)], MINUTE_MS).bannedAfterMs).not.toBeNull();
    },
  );

  test.for([1, 3, 30])("a client that backs off is never banned through %i isolates", (count) => {
    for (const jitter of [true, false]) {
      for (const [perMinute, perDay] of [
        [60, 1_000],
        [1, 1],
        [1, 1_000_000],
      ] as const) {
        const idleMs = jitter ? IDLE_MS : Infinity;
        const isolates = new Isolates(keyPolicy(perMinute, perDay), count, { idleMs });
        const client = backsOff(
          { firstMs: 100, capMs: 5_000, jitter, paceMs: 20 },
          seededRandom(count),
        );
        expect(run(isolates, [client], 12 * HOUR_MS).bannedAfterMs).toBeNull();
      }
    }
  });

  test("a fleet that waits for Retry-After is never banned if it has at most as many workers as strikes lead to a ban", () => {
    for (let seed = 1; seed <= 100; seed++) {
      const random = seededRandom(seed);
      const perMinute = 1 + Math.floor(random() * 90);
      const isolates = new Isolates(keyPolicy(perMinute, 1_000_000), 1 + (seed % 20), {
        seed,
        idleMs: seed % 2 === 0 ? IDLE_MS : Infinity,
      });
      const worker = () =>
        waitsForRetryAfter(
          () => 10 + Math.round(random() * 1_490),
          () => Math.round(random() * 30_000),
        );
      const fleet = Array.from({ length: Math.max(60, perMinute) }, worker);
      expect(run(isolates, fleet, 20 * MINUTE_MS).bannedAfterMs, `seed ${seed}`).toBeNull();
    }
  });
});
