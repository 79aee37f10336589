import { execFileSync } from "node:child_process";
import { promises, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { expect, it, onTestFinished, vi } from "vitest";
import { packClient } from "../../../src/operator/build/client-package.ts";
import { buildAll, buildProgram } from "../../../src/operator/build/program.ts";
import { SITE_FOLDER } from "../../../src/operator/wrangler.ts";
import { failure, runInProcess } from "../commands.ts";
import { testFolder } from "../../support/test-folder.ts";

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
  const read = vi.spyOn(promises, "readFile").mockImplementation(async (file) => {
    const content = readFileSync(file as string);
    return (file as string).endsWith("README.md") ? Buffer.from("Another text") : content;
  });
  syncBuiltinESMExports();
  onTestFinished(() => (read.mockRestore(), syncBuiltinESMExports()));
  expect(await packClient(cache)).not.toEqual(Buffer.from("kept"));
  expect(readdirSync(cache)).toHaveLength(1);
});

it("a build replaces a file whose content changes, but not its length, and refuses a contact that is none", async () => {
  const site = testFolder();
  vi.stubEnv(SITE_FOLDER, site);
  for (const email of ["ann@shop.example", "bob@shop.example"]) {
    await buildAll({ email });
    expect(readFileSync(join(site, "openapi.json"), "utf8")).toContain(email);
  }
  const refused = await runInProcess(buildProgram(), ["--contact", "mailto:ann@shop.example"]);
  expect(refused).toEqual(failure("Expected an email address or URL", 2));
});
