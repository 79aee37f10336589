import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { writeFolder } from "../../../src/operator/replace-file.ts";
import { testFolder } from "../../support/test-folder.ts";

const parent = testFolder();

test("writeFolder rewrites only changed files, and removes files that are not given", async () => {
  const folder = join(parent, "site");
  const inodes = () => ["a", "sub/b"].map((name) => statSync(join(folder, name)).ino);
  const write = (files: object) => writeFolder(folder, new Map(Object.entries(files)));
  await write({ a: "one", "sub/b": "two", c: "three", "sub/d": "four" });
  const before = inodes();
  await write({ a: "one", "sub/b": "six" });
  expect(readFileSync(join(folder, "a"), "utf8")).toBe("one");
  expect(readFileSync(join(folder, "sub/b"), "utf8")).toBe("six");
  expect(inodes().map((inode, index) => inode === before[index])).toEqual([true, false]);
  const all = readdirSync(parent, { recursive: true });
  expect(all.toSorted()).toEqual(["site", "site/a", "site/sub", "site/sub/b"]);
});
