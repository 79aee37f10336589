import { retryDelayMs } from "../../../src/client/retry.ts";
import type { Decision } from "../../../src/worker/limit-rules/decision.ts";
import { retryAfterSeconds } from "../../../src/worker/limit-rules/headers.ts";
import { type SimulatedLimiter, START_MS } from "./simulated-limiter.ts";

/**
 * A simulated client. Yields the milliseconds until its next request arrives, and receives the
 * decision on that request.
 */
export type Client = Generator<number, never, Decision>;

/** Returns a random number. */
export type Draw = () => number;

/**
 * Returns a random number generator (mulberry32) whose numbers in [0, 1) are the same in every run.
 */
export function seededRandom(seed: number): Draw {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), 1 | state);
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
}

/**
 * A client that waits for `Retry-After` after a refusal, and pauses for `workMs` after an
 * admission.
 */
export function* waitsForRetryAfter(latencyMs: Draw, workMs: Draw): Client {
  let waitMs = latencyMs();
  for (;;) {
    const decision = yield waitMs;
    const pauseMs = decision.admitted ? workMs() : retryAfterSeconds(decision) * 1_000;
    waitMs = latencyMs() + pauseMs + latencyMs();
  }
}

/**
 * A client that waits for `Retry-After` and up to `jitterMs` longer, so that the clients of a fleet
 * do not retry at the same moment.
 */
export function* waitsWithJitter(jitterMs: number, latencyMs: Draw, random: Draw): Client {
  let waitMs = random() * jitterMs;
  for (;;) {
    const decision = yield waitMs;
    const pauseMs = decision.admitted
      ? 0
      : retryAfterSeconds(decision) * 1_000 + random() * jitterMs;
    waitMs = latencyMs() + pauseMs + latencyMs();
  }
}

/**
 * A client that retries like the npm package: after `Retry-After` and a random delay whose maximum
 * doubles.
 */
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
  /** True for full jitter: the client waits for a random part of its wait. */
  readonly jitter: boolean;
  /** The time between two requests while requests are admitted. */
  readonly paceMs: number;
}

/** A client that ignores `Retry-After`, but doubles its wait with every refusal. */
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

/** A client that sends requests at this rate, whether they are admitted or refused. */
export function* loops(perSecond: number): Client {
  for (;;) yield 1_000 / perSecond;
}

export interface Outcome {
  readonly admitted: number;
  readonly refused: number;
  /** Milliseconds from the start of the traffic to the first ban; `null` if there is none. */
  readonly bannedAfterMs: number | null;
}

interface Due {
  readonly client: Client;
  readonly dueMs: number;
}

/**
 * A priority queue of clients. A binary heap, because a simulation takes the next of many clients a
 * million times.
 */
class DueQueue {
  readonly #heap: Due[] = [];

  add(due: Due): void {
    const heap = this.#heap;
    let index = heap.push(due) - 1;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (heap[parent]!.dueMs <= due.dueMs) break;
      heap[index] = heap[parent]!;
      index = parent;
    }
    heap[index] = due;
  }

  /** Removes and returns the client that is due first. */
  take(): Due {
    const heap = this.#heap;
    const first = heap[0]!;
    const last = heap.pop()!;
    if (heap.length === 0) return first;
    let index = 0;
    for (;;) {
      const left = 2 * index + 1;
      const right = left + 1;
      const isRightFirst = right < heap.length && heap[right]!.dueMs < heap[left]!.dueMs;
      const child = isRightFirst ? right : left;
      if (child >= heap.length || heap[child]!.dueMs >= last.dueMs) break;
      heap[index] = heap[child]!;
      index = child;
    }
    heap[index] = last;
    return first;
  }
}

/** Simulates clients that share one key, for this time or until the key is banned. */
export function run(
  limiter: SimulatedLimiter,
  clients: readonly Client[],
  durationMs: number,
): Outcome {
  const startMs = limiter.nowMs;
  const queue = new DueQueue();
  for (const client of clients) queue.add({ client, dueMs: startMs + client.next().value });
  let admitted = 0;
  let refused = 0;
  for (;;) {
    const { client, dueMs } = queue.take();
    if (dueMs >= startMs + durationMs) return { admitted, refused, bannedAfterMs: null };
    const decision = limiter.at(Math.floor(dueMs) - START_MS).request();
    if (decision.banned) return { admitted, refused, bannedAfterMs: limiter.nowMs - startMs };
    if (decision.admitted) admitted += 1;
    else refused += 1;
    queue.add({ client, dueMs: dueMs + client.next(decision).value });
  }
}
