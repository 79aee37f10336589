import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { base32nopad } from "@scure/base";
import { expect, test } from "vitest";
import { generateSecret } from "../src/store/keys/new-secret.ts";

const page = readFileSync("SECURITY.md", "utf8");
const pattern = new RegExp(/```regex\n(?<text>.+)\n```/.exec(page)?.groups?.["text"] ?? "", "g");

/** Returns whether the checksum of a key is right, calculated as SECURITY.md describes. */
function hasChecksum(match: string): boolean {
  const bytes = base32nopad.decode(match.slice("sord_".length).toUpperCase());
  const hash = createHash("sha256").update("sord_").update(bytes.subarray(0, 20)).digest();
  return bytes.length === 25 && hash.subarray(0, 5).equals(bytes.subarray(20));
}

test("the pattern for secret scanners finds keys in code alone, and the page describes their checksum", () => {
  const secrets = Array.from({ length: 100 }, generateSecret);
  const code = secrets.map((secret) => `const key = "${secret}";`).join("\n");
  expect(code.match(pattern)).toEqual(secrets);
  expect(secrets.every(hasChecksum)).toBe(true);
  expect("sord_ SECRET_PREFIX sord_… key_v4hynivbh72jw5th".match(pattern)).toBeNull();
  expect(hasChecksum(`sord_${"a".repeat(40)}`)).toBe(false);
});
