import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, concatBytes } from "@noble/hashes/utils.js";
import { base32nopad } from "@scure/base";

/** The prefix of every secret. Secret scanners recognize secrets by this prefix. */
export const SECRET_PREFIX = "sord_";

export const RANDOM_BYTES = 20;
const CHECKSUM_BYTES = 5;
/**
 * The form of a secret. Base32 of 25 bytes needs no padding and has no unused bits, so each secret
 * has exactly one spelling.
 */
const SECRET_FORMAT = new RegExp(`^${SECRET_PREFIX}[a-z2-7]{40}$`);

const encoder = new TextEncoder();

/** Returns whether `text` has the form of a secret, without checking its checksum. */
export function hasSecretForm(text: string): boolean {
  return SECRET_FORMAT.test(text);
}

/** The prefix in Base64, at each of the three offsets. */
const ENCODED_PREFIXES = /c29yZF|NvcmRf|zb3JkX/;

/**
 * Returns whether a secret could be in `text`: its prefix in any case, with other characters in
 * between, or encoded.
 */
export function couldHoldSecret(text: string): boolean {
  const letters = text.toLowerCase().replace(/[^a-z0-9]/g, "");
  return letters.includes("sord") || ENCODED_PREFIXES.test(text) || letters.includes("736f7264");
}

/** Returns whether `text` has the form of a secret and a correct checksum. */
export function isSecret(text: string): boolean {
  if (!hasSecretForm(text)) return false;
  const bytes = base32nopad.decode(text.slice(SECRET_PREFIX.length).toUpperCase());
  const expected = checksum(bytes.subarray(0, RANDOM_BYTES));
  return expected.every((byte, index) => byte === bytes[RANDOM_BYTES + index]);
}

/** Returns the lower-case hexadecimal SHA-256, which is stored instead of the secret. */
export function hashSecret(secret: string): string {
  return bytesToHex(sha256(encoder.encode(secret)));
}

/** Returns the 40-bit checksum that follows these random bytes in a secret. */
export function checksum(random: Uint8Array): Uint8Array {
  return sha256(concatBytes(encoder.encode(SECRET_PREFIX), random)).subarray(0, CHECKSUM_BYTES);
}
