import type { Decision } from "../../../src/rules/limits/decision.ts";
import { retryAfterSeconds } from "../../../src/rules/limits/headers.ts";

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

/** A client that sends one request after another. All times in milliseconds. */
export interface Client {
  /** The time until the first request, in addition to its latency. */
  readonly startMs?: number;
  /** The latency of each request and of each response. */
  readonly latencyMs?: Draw;
  /** How long the client pauses after an admitted request. */
  readonly workMs?: Draw;
  /** How long the client waits after this many refusals in a row, at least 1. */
  readonly waitMs: (retryAfterMs: number, refusals: number) => number;
}

/** Yields the milliseconds until the client's next request, and receives the decision on it. */
export function* requestsOf(client: Client): Generator<number, never, Decision> {
  const { startMs = 0, latencyMs = () => 0, workMs = () => 0, waitMs } = client;
  let nextMs = startMs + latencyMs();
  for (let refusals = 0; ;) {
    const decision = yield nextMs;
    refusals = decision.admitted ? 0 : refusals + 1;
    const retryAfterMs = 1_000 * retryAfterSeconds(decision);
    nextMs = latencyMs() + (refusals === 0 ? workMs() : waitMs(retryAfterMs, refusals));
    nextMs += latencyMs();
  }
}

/** A client that waits for `Retry-After`. */
export function patient(habits: Omit<Client, "waitMs">): Client {
  return { ...habits, waitMs: (retryAfterMs) => retryAfterMs };
}

/**
 * A client that ignores `Retry-After`, but doubles its wait with every refusal, up to `capMs`.
 *
 * @param jitter draws the part of the doubled wait that the client waits, from 0 to 1.
 * @param paceMs the time between two requests while requests are admitted.
 */
export function doubling(firstMs: number, capMs: number, jitter: Draw, paceMs: number): Client {
  const ceilingMs = (refusals: number) => Math.min(capMs, firstMs * 2 ** (refusals - 1));
  return { workMs: () => paceMs, waitMs: (_, refusals) => jitter() * ceilingMs(refusals) };
}

export function loop(perSecond: number): Client {
  const paceMs = () => 1_000 / perSecond;
  return { startMs: paceMs(), workMs: paceMs, waitMs: paceMs };
}
