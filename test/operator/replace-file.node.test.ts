import { execFileSync } from "node:child_process";
import { lstatSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { replaceFile } from "../../src/operator/replace-file.ts";

it("a pipe is written to, also through a link, and not replaced", async () => {
  const folder = mkdtempSync(join(tmpdir(), "store-orders-replace-"));
  const [pipe, link] = [join(folder, "pipe"), join(folder, "link")];
  execFileSync("mkfifo", [pipe]);
  symlinkSync(pipe, link);
  const writing = replaceFile(link, (path) => writeFile(path, "new"));
  const [text] = await Promise.all([readFile(pipe, "utf8"), writing]);
  expect(text).toBe("new");
  expect([lstatSync(pipe).isFIFO(), lstatSync(link).isSymbolicLink()]).toEqual([true, true]);
  expect(readdirSync(folder)).toHaveLength(2);
  rmSync(folder, { recursive: true });
});
