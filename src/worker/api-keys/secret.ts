import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, concatBytes, randomBytes } from "@noble/hashes/utils.js";
import { base32nopad } from "@scure/base";

/** What every API key starts with, so that secret scanners can find one. */
export const SECRET_PREFIX = "sord_";

const RANDOM_BYTES = 20;
const CHECKSUM_BYTES = 5;
/** Base32 of 25 bytes, which needs no padding, so that a key has one spelling. */
const SECRET_FORMAT = new RegExp(`^${SECRET_PREFIX}[a-z2-7]{40}$`);

const encoder = new TextEncoder();

/**
 * Makes an API key: the prefix, then 160 random bits and a checksum of 40 bits in lower-case base32
 * (contract, section 3).
 */
export function generateSecret(): string {
  const random = randomBytes(RANDOM_BYTES);
  return SECRET_PREFIX + base32nopad.encode(concatBytes(random, checksum(random))).toLowerCase();
}

/** Whether `text` has the form of an API key; its checksum is not looked at. */
export function hasSecretForm(text: string): boolean {
  return SECRET_FORMAT.test(text);
}

/** Whether `text` has the form of an API key and the checksum of one: true of every key we made. */
export function isSecret(text: string): boolean {
  if (!hasSecretForm(text)) return false;
  const bytes = base32nopad.decode(text.slice(SECRET_PREFIX.length).toUpperCase());
  const expected = checksum(bytes.subarray(0, RANDOM_BYTES));
  return expected.every((byte, index) => byte === bytes[RANDOM_BYTES + index]);
}

/** The SHA-256 of a key in lower-case hexadecimal: the only form in which a key is stored. */
export function hashSecret(key: string): string {
  return bytesToHex(sha256(encoder.encode(key)));
}

/** The last four characters of a key, by which its operator recognizes it: a part of the checksum. */
export function lastFourOf(key: string): string {
  return key.slice(-4);
}

/** Makes the public id of a key's record: `key_` and 80 random bits in lower-case base32. */
export function generateKeyId(): string {
  return `key_${base32nopad.encode(randomBytes(10)).toLowerCase()}`;
}

function checksum(random: Uint8Array): Uint8Array {
  return sha256(concatBytes(encoder.encode(SECRET_PREFIX), random)).subarray(0, CHECKSUM_BYTES);
}
