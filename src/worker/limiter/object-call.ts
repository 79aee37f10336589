import { limitsOf } from "../../rules/keys/api-key.ts";
import type { LocationHint } from "../../rules/keys/location-hints.ts";
import type { apiKeys } from "../../schema/keys.ts";
import { pause, withDeadline } from "../deadline.ts";
import type { Decision } from "../../rules/limits/decision.ts";
import type { QuotaPolicy } from "../../rules/limits/limiter-state.ts";
import type { WaitReport } from "../../rules/limits/strikes.ts";

const ATTEMPTS = 3;
const FIRST_PAUSE_MS = 50;

/** A Durable Object's name is this prefix and the key's id. It never contains the secret. */
const NAME_PREFIX = "key:";

/** The part of an API key that its limiter needs. */
export interface LimitedKey extends QuotaPolicy {
  readonly keyId: string;
  /** The region of a new Durable Object; by default, near the Worker that calls it first. */
  readonly locationHint?: LocationHint | null;
}

/** Returns the part of a stored key that its limiter needs. */
export function limitedKeyOf(key: typeof apiKeys.$inferSelect): LimitedKey {
  const { id: keyId, revision, resets, locationHint } = key;
  return { keyId, limits: limitsOf(key), revision, resets, locationHint };
}

/** Returns the later version of a key, which an isolate may have read between two requests. */
export function newest(one: LimitedKey, other: LimitedKey): LimitedKey {
  return other.revision > one.revision ? other : one;
}

/** Returns the id of the key that the Durable Object with this name limits; `null` if none. */
export function keyIdOf(name: string | undefined): string | null {
  return name?.startsWith(NAME_PREFIX) ? name.slice(NAME_PREFIX.length) : null;
}

export interface CallDetails {
  /** The number of requests to decide on: at least 1. */
  readonly requests: number;
  readonly wait: WaitReport | null;
  /** Whether one of the requests may cancel an order. */
  readonly cancels: boolean;
}

/** A decision by a key's Durable Object. */
export interface ObjectDecision extends Decision {
  /**
   * True if the key has cancelled no order lately, so its lists may come from a replica. Missing in
   * decisions by the fallback limiter.
   */
  readonly mayReadReplica?: boolean;
}

export type LimiterObjects = Pick<Cloudflare.Env["RATE_LIMITER"], "getByName">;

/**
 * Calls a key's Durable Object, and retries after a temporary failure.
 *
 * @throws {Error} if the Durable Object is overloaded or does not respond in time.
 */
export function callObject<T>(
  objects: LimiterObjects,
  { keyId, locationHint }: LimitedKey,
  timeoutMs: number,
  method: (object: ReturnType<LimiterObjects["getByName"]>) => Promise<T>,
  attempts = ATTEMPTS,
): Promise<T> {
  const place = locationHint ? { locationHint } : undefined;
  let isOver = false;
  const call = async () => {
    for (let attempt = 1; ; attempt += 1) {
      try {
        // Every attempt gets a new stub, because a stub that has thrown may be permanently broken.
        return await method(objects.getByName(NAME_PREFIX + keyId, place));
      } catch (error) {
        if (attempt === attempts || !isRetryable(error)) throw error;
        await pause(attempt * FIRST_PAUSE_MS * (1 + Math.random()));
        if (isOver) throw error;
      }
    }
  };
  return withDeadline(call(), timeoutMs).finally(() => (isOver = true));
}

export function isOverloaded(error: unknown): boolean {
  return Object(error).overloaded === true;
}

/** An overloaded Durable Object is not called again, because that would increase its load. */
function isRetryable(error: unknown): boolean {
  return Object(error).retryable === true && !isOverloaded(error);
}
