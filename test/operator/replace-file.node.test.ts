import { execFileSync } from "node:child_process";
import { existsSync, lstatSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { errorMessage } from "../../src/operator/command-line.ts";
import { replaceFile } from "../../src/operator/replace-file.ts";

let folder: string;
beforeEach(() => (folder = mkdtempSync(join(tmpdir(), "store-orders-replace-"))));
afterEach(() => rmSync(folder, { recursive: true }));

const write = (file: string) => replaceFile(file, (path) => writeFile(path, "new"));

it("writes to a pipe, and does not replace it", async () => {
  const pipe = join(folder, "pipe");
  execFileSync("mkfifo", [pipe]);
  const [text] = await Promise.all([readFile(pipe, "utf8"), write(pipe)]);
  expect(text).toBe("new");
  expect(lstatSync(pipe).isFIFO()).toBe(true);
});

it.skipIf(!existsSync("/dev/full"))(
  "writes to a device through a link, and keeps both",
  async () => {
    const link = join(folder, "full");
    symlinkSync("/dev/full", link);
    const error = await write(link).catch(errorMessage);
    expect(error).toMatch(/no space left/);
    expect(lstatSync(link).isSymbolicLink()).toBe(true);
    expect(readdirSync(folder)).toEqual(["full"]);
  },
);
