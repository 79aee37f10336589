import type { Decision, QuotaPolicy } from "../limits/decision.ts";

const KEY_PREFIX = "key:";

/** Whose requests are counted: an API key. */
export interface Subject extends QuotaPolicy {
  /** Names the Durable Object. Never holds key material. */
  readonly name: string;
}

/** Counts requests and says which are admitted. */
export interface Limiter {
  /**
   * Counts one request if both windows have room.
   *
   * @throws {LimiterOverloadedError} if nothing can be counted at the moment.
   */
  admit(subject: Subject): Promise<Decision>;
}

/** The name of the subject that counts the requests of a key. */
export function keySubjectName(keyId: string): string {
  return `${KEY_PREFIX}${keyId}`;
}

/** The id of the key whose requests a subject of this name counts; `null` where it is none. */
export function keyIdOf(name: string | undefined): string | null {
  return name?.startsWith(KEY_PREFIX) ? name.slice(KEY_PREFIX.length) : null;
}
