export const INT64_MIN = -(2n ** 63n);
export const INT64_MAX = 2n ** 63n - 1n;

/** Matches an integer in canonical decimal: no plus sign, no leading zeros, no `-0`. */
export const CANONICAL_DECIMAL = /^(?:0|-?[1-9][0-9]{0,18})$/;

/** Reads an int64 in canonical decimal; `undefined` for any other text (docs/api.md, Cancelling). */
export function parseInt64(text: string): bigint | undefined {
  if (!CANONICAL_DECIMAL.test(text)) return undefined;
  const value = BigInt(text);
  return value >= INT64_MIN && value <= INT64_MAX ? value : undefined;
}
