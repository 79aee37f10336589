import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { base32nopad } from "@scure/base";
import fc from "fast-check";
import { expect, test } from "vitest";
import { generateSecret } from "../../../src/store/keys/new-secret.ts";
import { isName } from "../../../src/rules/keys/key-name.ts";
import { hashSecret, isSecret, SECRET_PREFIX } from "../../../src/rules/keys/secret.ts";

const ALPHABET = "abcdefghijklmnopqrstuvwxyz234567";

const page = readFileSync("SECURITY.md", "utf8");
const pattern = new RegExp(/```regex\n(?<text>.+)\n```/.exec(page)?.groups?.["text"] ?? "", "g");

/** Returns whether the checksum of a key is right, calculated as SECURITY.md describes. */
function hasChecksum(secret: string): boolean {
  const bytes = base32nopad.decode(secret.slice("sord_".length).toUpperCase());
  const hash = createHash("sha256").update("sord_").update(bytes.subarray(0, 20)).digest();
  return bytes.length === 25 && hash.subarray(0, 5).equals(bytes.subarray(20));
}

test("a generated secret has 160 random bits and the checksum and pattern of SECURITY.md, and never repeats", () => {
  const secrets = Array.from({ length: 1_000 }, generateSecret);
  expect(new Set(secrets).size).toBe(secrets.length);
  expect(secrets.every((secret) => isSecret(secret) && hasChecksum(secret))).toBe(true);
  const code = secrets.map((secret) => `const key = "${secret}";`).join("\n");
  expect(code.match(pattern)).toEqual(secrets);
  expect("sord_ SECRET_PREFIX sord_… key_v4hynivbh72jw5th".match(pattern)).toBeNull();
  // What is stored is its SHA-256 in lower-case hexadecimal.
  const [first = ""] = secrets;
  expect(hashSecret(first)).toBe(createHash("sha256").update(first).digest("hex"));
  for (let position = 0; position < 32; position++) {
    expect(new Set(secrets.map((secret) => secret[SECRET_PREFIX.length + position])).size).toBe(32);
  }
});

test("a text with another character, without the prefix or with more around it, or an invented one is no secret", () => {
  const secret = generateSecret();
  for (let position = SECRET_PREFIX.length; position < secret.length; position++) {
    const others = [...ALPHABET].map((symbol) => [...secret].with(position, symbol).join(""));
    expect(others.filter(isSecret)).toEqual([secret]);
  }
  const end = secret.slice(SECRET_PREFIX.length);
  for (const other of [SECRET_PREFIX + end.toUpperCase(), end, `sorb_${end}`, ` ${secret}`]) {
    expect(isSecret(other)).toBe(false);
  }
  expect(isSecret(`${secret}\n`)).toBe(false);
  const invented = fc.string({ unit: fc.constantFrom(...ALPHABET), minLength: 40, maxLength: 40 });
  fc.assert(fc.property(invented, (text) => !isSecret(SECRET_PREFIX + text)));
});

test("a name is a line of 1 to 100 characters without control and direction characters, and no API key is in it", () => {
  const long = "😀".repeat(100);
  const names = ["Łódź 'n' \"co\"", " a", long, SECRET_PREFIX, generateSecret().slice(0, 24)];
  expect(names.filter((name) => !isName(name))).toEqual([]);
  const secret = generateSecret();
  const keys = [secret.slice(0, 25), `of ${secret}`, secret.toUpperCase()];
  const marks = ["\n", "\0", "\u2028", "\u2029", "\u202e", "\u2066", "\ud800"];
  const others = ["", "  ", `${long}a`, ...keys, ...marks.map((mark) => `a${mark}b`)];
  expect(others.filter(isName)).toEqual([]);
});
