import { readFile } from "node:fs/promises";
import { build } from "esbuild";
import { expect, test } from "vitest";

test("`dependencies` are exactly the packages in the Worker's bundle, for npm audit", async () => {
  const { metafile } = await build({
    entryPoints: ["src/worker/index.ts"],
    bundle: true,
    write: false,
    metafile: true,
    format: "esm",
    conditions: ["workerd", "worker", "browser"],
    external: ["cloudflare:*", "*.wasm"],
    logLevel: "error",
  });
  const shipped = Object.entries(metafile.inputs)
    .filter(([path]) => !path.startsWith("node_modules/"))
    .flatMap(([, { imports }]) => imports.map(({ path }) => path))
    .flatMap((path) => /^node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? []);
  const { dependencies }: { dependencies: Record<string, string> } = JSON.parse(
    await readFile("package.json", "utf8"),
  );
  expect(Object.keys(dependencies)).toEqual([...new Set(shipped)].toSorted());
});
