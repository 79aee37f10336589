import { createApiKey, type CreatedKey } from "./administration.ts";
import type { KeyDetails } from "./key-details.ts";

const NAME = "Verification";

/**
 * The key of a verification expires after this time, even if nobody revokes it. A verification
 * takes two minutes.
 */
const LASTS_MS = 10 * 60_000;

/** Creates the key with which `npm run verify` calls a service, without storing it. */
export function createVerificationKey(now: Date): CreatedKey {
  const expiresAt = new Date(now.getTime() + LASTS_MS);
  return createApiKey({ name: NAME, plan: "free", limits: null, expiresAt }, now);
}

/** Returns whether `createVerificationKey` created a key. Lists leave such keys out. */
export function isVerificationKey(
  key: Pick<KeyDetails, "name" | "createdAt" | "expiresAt">,
): boolean {
  return key.name === NAME && key.expiresAt?.getTime() === key.createdAt.getTime() + LASTS_MS;
}
