import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, concatBytes, randomBytes } from "@noble/hashes/utils.js";
import { base32nopad } from "@scure/base";

/** The prefix of every secret. Secret scanners recognize secrets by this prefix. */
export const SECRET_PREFIX = "sord_";

const RANDOM_BYTES = 20;
const CHECKSUM_BYTES = 5;
/**
 * The form of a secret. Base32 of 25 bytes needs no padding and has no unused bits, so each secret
 * has exactly one spelling.
 */
const SECRET_FORMAT = new RegExp(`^${SECRET_PREFIX}[a-z2-7]{40}$`);

const encoder = new TextEncoder();

/**
 * Generates a secret, which a client sends as its API key (docs/api.md, Authentication). A secret
 * is the prefix, followed by 160 random bits and a 40-bit checksum in lower-case base32.
 */
export function generateSecret(): string {
  const random = randomBytes(RANDOM_BYTES);
  return SECRET_PREFIX + base32nopad.encode(concatBytes(random, checksum(random))).toLowerCase();
}

/** Returns whether `text` has the form of a secret, without checking its checksum. */
export function hasSecretForm(text: string): boolean {
  return SECRET_FORMAT.test(text);
}

/**
 * Returns whether `text` has the form of a secret and a correct checksum. Every generated secret
 * has both.
 */
export function isSecret(text: string): boolean {
  if (!hasSecretForm(text)) return false;
  const bytes = base32nopad.decode(text.slice(SECRET_PREFIX.length).toUpperCase());
  const expected = checksum(bytes.subarray(0, RANDOM_BYTES));
  return expected.every((byte, index) => byte === bytes[RANDOM_BYTES + index]);
}

/**
 * Returns the SHA-256 of a secret in lower-case hexadecimal. The database stores this hash instead
 * of the secret.
 */
export function hashSecret(secret: string): string {
  return bytesToHex(sha256(encoder.encode(secret)));
}

/**
 * Returns the last four characters of a secret, by which operators recognize it. These characters
 * are part of the checksum.
 */
export function lastFourOf(secret: string): string {
  return secret.slice(-4);
}

/** Generates the public id of a key: `key_` and 80 random bits in lower-case base32. */
export function generateKeyId(): string {
  return `key_${base32nopad.encode(randomBytes(10)).toLowerCase()}`;
}

function checksum(random: Uint8Array): Uint8Array {
  return sha256(concatBytes(encoder.encode(SECRET_PREFIX), random)).subarray(0, CHECKSUM_BYTES);
}
