import type { LocationHint } from "../../schema/location-hints.ts";
import type { QuotaPolicy } from "../limit-rules/decision.ts";

const NAME_PREFIX = "key:";

/** The part of an API key that its limiter needs. */
export interface LimitedKey extends QuotaPolicy {
  /** The name of the key's Durable Object. Never contains the secret. */
  readonly name: string;
  /** Where Cloudflare creates the Durable Object; by default, near the Worker that calls it first. */
  readonly locationHint?: LocationHint | null;
}

/** Returns the name of the Durable Object that limits a key. */
export function limiterName(keyId: string): string {
  return `${NAME_PREFIX}${keyId}`;
}

/** Returns the id of the key that the Durable Object with this name limits; `null` if none. */
export function keyIdOf(name: string | undefined): string | null {
  return name?.startsWith(NAME_PREFIX) ? name.slice(NAME_PREFIX.length) : null;
}
