import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readFile } from "node:fs/promises";
import { expect, it, vi } from "vitest";
import { packClient } from "../../../src/operator/build/client-package.ts";
import { testFolder } from "../../support/test-folder.ts";

vi.mock(import("node:fs/promises"), { spy: true });

it("the client's package has its modules as JavaScript with types, and its documents, and is kept until one of them changes", async () => {
  const cache = testFolder();
  const packed = await packClient(cache);
  const paths = execFileSync("tar", ["-tz"], { input: packed, encoding: "utf8" });
  const names = readdirSync("src/client").filter((name) => !/^(?:dist|tsconfig\.json)$/.test(name));
  const packedNames = names.flatMap((name) =>
    name.endsWith(".ts") ? [".js", ".d.ts"].map((end) => `dist/${name.replace(".ts", end)}`) : name,
  );
  const expected = packedNames.map((name) => `package/${name}`);
  expect(paths.trim().split("\n").toSorted()).toEqual(expected.toSorted());
  const [kept = ""] = readdirSync(cache);
  writeFileSync(join(cache, kept), "kept");
  expect(Buffer.from(await packClient(cache)).toString()).toBe("kept");
  vi.mocked(readFile).mockImplementation(async (file) =>
    (file as string).endsWith("README.md")
      ? Buffer.from("Another text")
      : readFileSync(file as string),
  );
  expect(await packClient(cache)).not.toEqual(Buffer.from("kept"));
});
