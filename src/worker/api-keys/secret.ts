import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, concatBytes, randomBytes } from "@noble/hashes/utils.js";
import { base32nopad } from "@scure/base";

/** The prefix of every secret, by which secret scanners recognize it. */
export const SECRET_PREFIX = "sord_";

const RANDOM_BYTES = 20;
const CHECKSUM_BYTES = 5;
/** Base32 of 25 bytes needs no padding, so a secret has one spelling. */
const SECRET_FORMAT = new RegExp(`^${SECRET_PREFIX}[a-z2-7]{40}$`);

const encoder = new TextEncoder();

/**
 * Makes a secret, which the caller sends as its API key: the prefix, then 160 random bits and a
 * checksum of 40 bits in lower-case base32 (docs/api.md, Authentication).
 */
export function generateSecret(): string {
  const random = randomBytes(RANDOM_BYTES);
  return SECRET_PREFIX + base32nopad.encode(concatBytes(random, checksum(random))).toLowerCase();
}

/** Returns whether `text` has the form of a secret, without checking its checksum. */
export function hasSecretForm(text: string): boolean {
  return SECRET_FORMAT.test(text);
}

/** Returns whether `text` has the form and the checksum of a secret: true of generated ones. */
export function isSecret(text: string): boolean {
  if (!hasSecretForm(text)) return false;
  const bytes = base32nopad.decode(text.slice(SECRET_PREFIX.length).toUpperCase());
  const expected = checksum(bytes.subarray(0, RANDOM_BYTES));
  return expected.every((byte, index) => byte === bytes[RANDOM_BYTES + index]);
}

/** Returns the SHA-256 of a secret in lower-case hexadecimal, which is stored in its place. */
export function hashSecret(secret: string): string {
  return bytesToHex(sha256(encoder.encode(secret)));
}

/** Returns the end of a secret, by which operators recognize it: a part of its checksum. */
export function lastFourOf(secret: string): string {
  return secret.slice(-4);
}

/** Makes the public id of a key: `key_` and 80 random bits in lower-case base32. */
export function generateKeyId(): string {
  return `key_${base32nopad.encode(randomBytes(10)).toLowerCase()}`;
}

function checksum(random: Uint8Array): Uint8Array {
  return sha256(concatBytes(encoder.encode(SECRET_PREFIX), random)).subarray(0, CHECKSUM_BYTES);
}
