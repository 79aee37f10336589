import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { expect, it } from "vitest";
import { unstable_readConfig as readConfig } from "wrangler";
import { parseConfig } from "../../../src/rules/config.ts";

/** Cloudflare's limit on the size of a compressed bundle on the free plan. */
const MAX_GZIP_BYTES = 3_000_000;

it("the Worker fits on the free plan, with exactly the packages of `dependencies`, for npm audit", async () => {
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

it.each([undefined, "staging", "production"])(
  "%s has all bindings and valid vars, hides query strings from logs and traces, and traces a sample",
  (env) => {
    const config = readConfig({ config: "wrangler.toml", ...(env && { env }) });
    expect(() => parseConfig(config.vars)).not.toThrow();
    expect(config.d1_databases).toMatchObject([{ binding: "ORDERS" }, { binding: "KEYS" }]);
    expect(config.durable_objects.bindings).toMatchObject([{ name: "RATE_LIMITER" }]);
    expect(config.version_metadata).toEqual({ binding: "VERSION" });
    expect(config.analytics_engine_datasets).toHaveLength(env ? 1 : 0);
    expect(config.observability).toEqual({
      enabled: true,
      redact_query_string: true,
      logs: { enabled: true, invocation_logs: false },
      traces: { enabled: true, head_sampling_rate: 0.01 },
    });
  },
);
