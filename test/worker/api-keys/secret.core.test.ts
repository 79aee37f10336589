import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  generateSecret,
  generateKeyId,
  hashSecret,
  isSecret,
  SECRET_PREFIX,
} from "../../../src/worker/api-keys/secret.ts";
import { parseCredentials } from "../../../src/worker/api-keys/credentials.ts";

const ALPHABET = "abcdefghijklmnopqrstuvwxyz234567";
const aKey = fc.constant(null).map(generateSecret);
const aSymbol = fc.constantFrom(...ALPHABET);

describe("a generated key", () => {
  test("has the prefix, 160 random bits and a checksum, and is a key", () => {
    fc.assert(
      fc.property(aKey, (key) => {
        expect(key).toMatch(/^sord_[a-z2-7]{40}$/);
        expect(isSecret(key)).toBe(true);
        expect(parseCredentials(`Bearer ${key}`)).toStrictEqual({ kind: "key", key });
      }),
    );
  });

  test("never comes twice, and all of its first 160 bits vary", () => {
    const keys = Array.from({ length: 2_000 }, generateSecret);
    expect(new Set(keys).size).toBe(keys.length);
    for (let position = 0; position < 32; position++) {
      const symbols = new Set(keys.map((key) => key[SECRET_PREFIX.length + position]));
      expect(symbols.size).toBe(32);
    }
  });
});

describe("is no key", () => {
  test("a key with any one character changed", () => {
    const key = generateSecret();
    for (let position = SECRET_PREFIX.length; position < key.length; position++) {
      for (const symbol of ALPHABET) {
        const other = key.slice(0, position) + symbol + key.slice(position + 1);
        expect(isSecret(other)).toBe(other === key);
      }
    }
  });

  test("a key with two neighbours exchanged, one left out or one added", () => {
    fc.assert(
      fc.property(aKey, fc.nat({ max: 38 }), aSymbol, (key, offset, symbol) => {
        const at = SECRET_PREFIX.length + offset;
        const [head, first, second, tail] = [
          key.slice(0, at),
          key[at]!,
          key[at + 1]!,
          key.slice(at + 2),
        ];
        const exchanged = head + second + first + tail;
        expect(isSecret(exchanged)).toBe(exchanged === key);
        expect(isSecret(head + second + tail)).toBe(false);
        expect(isSecret(head + symbol + first + second + tail)).toBe(false);
      }),
    );
  });

  test("an invented one with the right form", () => {
    const invented = fc.string({ unit: aSymbol, minLength: 40, maxLength: 40 });
    fc.assert(
      fc.property(invented, (text) => {
        expect(isSecret(SECRET_PREFIX + text)).toBe(false);
      }),
      { numRuns: 2_000 },
    );
  });

  test("any other text", () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        expect(isSecret(text)).toBe(false);
        expect(isSecret(SECRET_PREFIX + text)).toBe(false);
      }),
    );
  });

  test.each<[string, (key: string) => string]>([
    ["in capitals", (key) => key.toUpperCase()],
    ["with its random part in capitals", (key) => SECRET_PREFIX + key.slice(5).toUpperCase()],
    ["without its prefix", (key) => key.slice(5)],
    ["with another prefix", (key) => `sorb_${key.slice(5)}`],
    ["with a space before it", (key) => ` ${key}`],
    ["with a line end after it", (key) => `${key}\n`],
    ["twice", (key) => key + key],
    ["with padding", (key) => `${key}======`],
  ])("a key %s", (_, change) => {
    expect(isSecret(change(generateSecret()))).toBe(false);
  });
});

test("the hash of a key is its SHA-256 in lower-case hexadecimal", () => {
  fc.assert(
    fc.property(aKey, (key) => {
      expect(hashSecret(key)).toBe(createHash("sha256").update(key).digest("hex"));
    }),
  );
});

test("the id of a key's record says nothing of the key, and never comes twice", () => {
  const ids = Array.from({ length: 2_000 }, generateKeyId);
  expect(new Set(ids).size).toBe(ids.length);
  for (const id of ids) expect(id).toMatch(/^key_[a-z2-7]{16}$/);
});
