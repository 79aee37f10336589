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

/** Returns whether `text` has the form of a secret and a correct checksum. */
export function isSecret(text: string): boolean {
  if (!hasSecretForm(text)) return false;
  const bytes = base32nopad.decode(text.slice(SECRET_PREFIX.length).toUpperCase());
  const expected = checksum(bytes.subarray(0, RANDOM_BYTES));
  return expected.every((byte, index) => byte === bytes[RANDOM_BYTES + index]);
}

/** The letters of the prefix, and their codes in hexadecimal, in any case. */
const SPELLED_PREFIX = /sord|[57]3[46]f[57]2[46]4/i;

/**
 * Returns whether a secret may be part of `text`, which contains only letters, digits, `_`, `-` and
 * `=`: whether the prefix is, in any case, with other separators, in hexadecimal, base64 or base32, or
 * all that follows the prefix.
 */
export function mayHoldSecret(text: string): boolean {
  const letters = text.replaceAll(/[-_=]/g, "");
  const runs = letters.toLowerCase().match(/[a-z2-7]{40,}/g) ?? [];
  const ends = runs.flatMap((run) => [run.slice(0, 40), run.slice(-40)]);
  if (ends.some((end) => isSecret(SECRET_PREFIX + end))) return true;
  const base64 = text.replaceAll("-", "+").replaceAll("_", "/").replaceAll("=", "");
  const base32 = letters.toUpperCase().match(/[A-Z2-7]{8,}/g) ?? [];
  const decoded = [
    ...wholeGroups(base64, 4).map(atob),
    ...base32
      .flatMap((run) => wholeGroups(run, 8))
      .map((groups) => String.fromCharCode(...base32nopad.decode(groups))),
  ];
  return [letters, ...decoded].some((spelled) => SPELLED_PREFIX.test(spelled));
}

/** Returns the whole groups of `size` characters in `text`, from each offset at which they may begin. */
function wholeGroups(text: string, size: number): string[] {
  return Array.from({ length: size }, (_, offset) => {
    const from = text.slice(offset);
    return from.slice(0, from.length - (from.length % size));
  });
}

/** Returns the lower-case hexadecimal SHA-256, which is stored instead of the secret. */
export function hashSecret(secret: string): string {
  return bytesToHex(sha256(encoder.encode(secret)));
}

/** Returns the 40-bit checksum that follows these random bytes in a secret. */
export function checksum(random: Uint8Array): Uint8Array {
  return sha256(concatBytes(encoder.encode(SECRET_PREFIX), random)).subarray(0, CHECKSUM_BYTES);
}
