import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { describe, expect, it } from "vitest";
import {
  experimental_generateTypes as generateTypes,
  unstable_readConfig as readConfig,
} from "wrangler";
import { parseConfig } from "../../../src/rules/config.ts";

/** Cloudflare's limit on the size of a compressed bundle on the free plan. */
const MAX_GZIP_BYTES = 3_000_000;

describe("the Worker", () => {
  it("has the same bindings in each environment, but telemetry only when deployed", async () => {
    const path = "src/worker/worker-env.d.ts";
    const types = readFileSync(path, "utf8");
    // The committed file must have the types that `npm run types` writes.
    expect(types).toContain((await generateTypes({ path, includeRuntime: false })).env);
    const members = [...types.matchAll(/interface (\w*Env) \{\n([^}]*)\}/g)].map(
      ([, name = "", text = ""]) => [name, text.replaceAll("?:", ":").trim().split(/\s+/)] as const,
    );
    expect(members.map(([name]) => name)).toEqual(["__BaseEnv_Env", "StagingEnv", "ProductionEnv"]);
    for (const [name, words] of members) expect(words, name).toEqual(members[0]?.[1]);
    const optional = [...types.matchAll(/(\w+)\?:/g)].map(([, member]) => member);
    expect(optional).toEqual(["ANALYTICS", "REQUEST_LOG"]);
  });

  it("fits on the free plan, with exactly the packages of `dependencies`, for npm audit", async () => {
    const { metafile, outputFiles } = await build({
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
    const { dependencies } = JSON.parse(readFileSync("package.json", "utf8")) as {
      dependencies: Record<string, string>;
    };
    expect(Object.keys(dependencies)).toEqual([...new Set(shipped)].toSorted());
    expect(gzipSync(outputFiles[0]?.contents ?? "").length).toBeLessThan(MAX_GZIP_BYTES);
  });
});

it.each([undefined, "staging", "production"])(
  "%s hides query strings from logs and traces, traces a sample, and has valid vars",
  (env) => {
    const { vars, observability } = readConfig({ config: "wrangler.toml", ...(env && { env }) });
    expect(() => parseConfig(vars)).not.toThrow();
    expect(observability).toEqual({
      enabled: true,
      redact_query_string: true,
      logs: { enabled: true, invocation_logs: false },
      traces: { enabled: true, head_sampling_rate: 0.01 },
    });
  },
);
