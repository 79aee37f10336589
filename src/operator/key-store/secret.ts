import { concatBytes, randomBytes } from "@noble/hashes/utils.js";
import { base32nopad } from "@scure/base";
import { checksum, RANDOM_BYTES, SECRET_PREFIX } from "../../rules/keys/secret.ts";

/**
 * Generates a secret, which a client sends as its API key (docs/api.md, Authentication). A secret
 * is the prefix, followed by 160 random bits and a 40-bit checksum in lower-case base32.
 */
export function generateSecret(): string {
  const random = randomBytes(RANDOM_BYTES);
  return SECRET_PREFIX + base32nopad.encode(concatBytes(random, checksum(random))).toLowerCase();
}

/** Generates the public id of a key: `key_` and 80 random bits in lower-case base32. */
export function generateKeyId(): string {
  return `key_${base32nopad.encode(randomBytes(10)).toLowerCase()}`;
}
