import { concatBytes, randomBytes } from "@noble/hashes/utils.js";
import { base32nopad } from "@scure/base";
import { checksum, hashSecret, RANDOM_BYTES, SECRET_PREFIX } from "../../rules/keys/secret.ts";

/** Generates the public id of a key: `key_` and 80 random bits in lower-case base32. */
export function generateKeyId(): string {
  return `key_${base32nopad.encode(randomBytes(10)).toLowerCase()}`;
}

/**
 * Generates a secret, which a client sends as its API key (docs/api.md, Authentication). A secret
 * is the prefix, followed by 160 random bits and a 40-bit checksum in lower-case base32.
 */
export function generateSecret(): string {
  const random = randomBytes(RANDOM_BYTES);
  return SECRET_PREFIX + base32nopad.encode(concatBytes(random, checksum(random))).toLowerCase();
}

/** Generates a secret with what the store keeps of it. */
export function newSecret() {
  const key = generateSecret();
  // The last four characters may be stored: they belong to the checksum, not to the random part.
  return { key, hash: hashSecret(key), lastFour: key.slice(-4) };
}
