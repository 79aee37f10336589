import type { Decision } from "../../src/rate-limit/decision.ts";
import { retryAfterSeconds } from "../../src/rate-limit/headers.ts";
import { type SimulatedLimiter, START_MS } from "./simulated-limiter.ts";

/** Yields for how many milliseconds until its next request arrives, and is told what that was answered. */
export type Client = Generator<number, never, Decision>;

/** Draws a number of milliseconds. */
export type Draw = () => number;

/** Numbers in [0, 1) that are the same on every run (mulberry32). */
export function seededRandom(seed: number): Draw {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), 1 | state);
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Works for a while on each answer before it sends the next request; where it is told to wait, it waits. */
export function* waitsForRetryAfter(latencyMs: Draw, workMs: Draw): Client {
  let waitMs = latencyMs();
  for (;;) {
    const decision = yield waitMs;
    const pauseMs = decision.admitted ? workMs() : retryAfterSeconds(decision) * 1_000;
    waitMs = latencyMs() + pauseMs + latencyMs();
  }
}

export interface Backoff {
  readonly firstMs: number;
  readonly capMs: number;
  /** Full jitter: any time from nothing to the wait, instead of the wait. */
  readonly jitter: boolean;
  /** Time between requests while they are admitted. */
  readonly paceMs: number;
}

/** Does not look at `Retry-After`, but doubles its wait with every refusal. */
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

/** Sends at this pace, whatever the answers are. */
export function* loops(perSecond: number): Client {
  for (;;) yield 1_000 / perSecond;
}

export interface Outcome {
  readonly admitted: number;
  readonly refused: number;
  /** Milliseconds after the start of the traffic at which the first ban fell; `null` for none. */
  readonly bannedAfterMs: number | null;
}

/** Lets the clients share the key for that long, or until it is banned. */
export function run(
  limiter: SimulatedLimiter,
  clients: readonly Client[],
  durationMs: number,
): Outcome {
  const startMs = limiter.nowMs;
  const queue = clients.map((client) => ({ client, dueMs: startMs + client.next().value }));
  let admitted = 0;
  let refused = 0;
  for (;;) {
    const next = queue.reduce((first, other) => (other.dueMs < first.dueMs ? other : first));
    if (next.dueMs >= startMs + durationMs) return { admitted, refused, bannedAfterMs: null };
    const decision = limiter.at(Math.floor(next.dueMs) - START_MS).request();
    if (decision.banned) return { admitted, refused, bannedAfterMs: limiter.nowMs - startMs };
    if (decision.admitted) admitted += 1;
    else refused += 1;
    next.dueMs += next.client.next(decision).value;
  }
}
