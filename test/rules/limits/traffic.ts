import { retryDelayMs } from "../../../src/client/retry.ts";
import type { Decision } from "../../../src/rules/limits/decision.ts";
import { retryAfterSeconds } from "../../../src/rules/limits/headers.ts";
import { type SimulatedLimiter, START_MS } from "./simulated-limiter.ts";

/** A client that yields the milliseconds until its next request, and receives the decision. */
export type Client = Generator<number, never, Decision>;

export type Draw = () => number;

/** Draws numbers in [0, 1) that are the same in every run (mulberry32). */
export function seededRandom(seed: number): Draw {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), 1 | state);
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
}

interface Waiting {
  readonly latencyMs: Draw;
  /** How long the client pauses after an admitted request. */
  readonly workMs?: Draw;
  readonly jitterMs?: Draw;
  /** The time until the first request, in addition to its latency. */
  readonly startMs?: number;
}

export function* waitsForRetryAfter({
  latencyMs,
  workMs = () => 0,
  jitterMs = () => 0,
  startMs = 0,
}: Waiting): Client {
  let waitMs = startMs + latencyMs();
  for (;;) {
    const decision = yield waitMs;
    const pauseMs = decision.admitted ? workMs() : retryAfterSeconds(decision) * 1_000 + jitterMs();
    waitMs = latencyMs() + pauseMs + latencyMs();
  }
}

/** A client that waits for `Retry-After` and a growing random delay, like our npm package. */
export function* retriesLikeTheClient(retries: number, latencyMs: Draw): Client {
  let attempt = 0;
  let waitMs = latencyMs();
  for (;;) {
    const decision = yield waitMs;
    attempt = decision.admitted || attempt === retries ? 0 : attempt + 1;
    const delayMs = attempt === 0 ? 0 : retryDelayMs(retryAfterSeconds(decision), attempt);
    waitMs = latencyMs() + delayMs + latencyMs();
  }
}

interface Backoff {
  readonly firstMs: number;
  readonly capMs: number;
  /** Whether the client waits a random part of the doubled wait, instead of all of it. */
  readonly jitter: boolean;
  /** The time between two requests while requests are admitted. */
  readonly paceMs: number;
}

/** A client that ignores `Retry-After`, but doubles its wait with every refusal, up to `capMs`. */
export function* backsOff({ firstMs, capMs, jitter, paceMs }: Backoff, random: Draw): Client {
  let refusals = 0;
  let waitMs = 0;
  for (;;) {
    const { admitted } = yield waitMs;
    refusals = admitted ? 0 : refusals + 1;
    const ceilingMs = Math.min(capMs, firstMs * 2 ** (refusals - 1));
    waitMs = admitted ? paceMs : jitter ? random() * ceilingMs : ceilingMs;
  }
}

export function* loops(perSecond: number): Client {
  for (;;) yield 1_000 / perSecond;
}

/** Simulates clients that share one key, for `durationMs` or until the key is banned. */
export function run(limiter: SimulatedLimiter, clients: readonly Client[], durationMs: number) {
  const startMs = limiter.nowMs;
  /** Sorted by `dueMs` in descending order, so `pop` returns the client that is due first. */
  const waiting: { readonly client: Client; readonly dueMs: number }[] = [];
  const add = (client: Client, dueMs: number) => {
    const index = waiting.findIndex((other) => other.dueMs <= dueMs);
    waiting.splice(index === -1 ? waiting.length : index, 0, { client, dueMs });
  };
  for (const client of clients) add(client, startMs + client.next().value);
  let admitted = 0;
  let refused = 0;
  for (;;) {
    const { client, dueMs } = waiting.pop()!;
    if (dueMs >= startMs + durationMs) return { admitted, refused, bannedAfterMs: null };
    const decision = limiter.at(Math.floor(dueMs) - START_MS).request();
    if (decision.banned) return { admitted, refused, bannedAfterMs: limiter.nowMs - startMs };
    if (decision.admitted) admitted += 1;
    else refused += 1;
    add(client, dueMs + client.next(decision).value);
  }
}
