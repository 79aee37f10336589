import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { BINDINGS } from "../../../src/operator/database/database.ts";
import { runWrangler } from "../../../src/operator/wrangler.ts";

/** Cloudflare's limit on the size of a compressed bundle on the free plan. */
const MAX_GZIP_BYTES = 3_000_000;

const ENVIRONMENTS = [
  { name: "the top level", env: "", store: "store-orders-local" },
  { name: "staging", env: "staging", store: "store-orders-staging" },
  { name: "production", env: "production", store: "store-orders-production" },
];

const CHECK_TYPES = ["types", "src/worker/worker-env.d.ts", "--include-runtime=false", "--check"];

const wordsOf = (members: string) => members.replaceAll("?:", ":").trim().split(/\s+/);

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "store-orders-build-"));
});
afterAll(() => rm(folder, { recursive: true }));

describe.each(ENVIRONMENTS)("a dry-run deployment of $name", ({ env, store }) => {
  it("builds within Cloudflare's limit, with every binding", async () => {
    const report = join(folder, `${store}.ndjson`);
    const { stdout } = await runWrangler(
      ["deploy", "--env", env, "--dry-run", "--outdir", join(folder, store)],
      { env: { WRANGLER_OUTPUT_FILE_PATH: report } },
    );
    for (const [name, binding] of Object.entries(BINDINGS)) {
      const line = `^env\\.${binding} \\(${store}-${name}\\) +D1 Database`;
      expect(stdout).toMatch(new RegExp(line, "m"));
    }
    expect(stdout).toMatch(/^env\.RATE_LIMITER \(RateLimiter\) +Durable Object/m);
    expect(await readFile(join(folder, store, "index.js"), "utf8")).toContain("RateLimiter");

    const lines = (await readFile(report, "utf8")).trim().split("\n");
    const { bundle_size: size } = lines.map((line) => JSON.parse(line)).at(-1);
    expect(size.gzip_bytes).toBeGreaterThan(10_000);
    expect(size.gzip_bytes).toBeLessThan(MAX_GZIP_BYTES);
  });
});

describe("the environments", () => {
  it("have the same bindings, so only telemetry bindings are optional in the types", async () => {
    const types = await readFile("src/worker/worker-env.d.ts", "utf8");
    const interfaces = [...types.matchAll(/interface (\w*Env) \{\n([^}]*)\}/g)];
    expect(interfaces.map(([, name]) => name)).toEqual([
      "__BaseEnv_Env",
      "StagingEnv",
      "ProductionEnv",
    ]);
    for (const [, name, members = ""] of interfaces) {
      for (const binding of Object.values(BINDINGS)) {
        expect(members, name).toContain(`\t${binding}: D1Database;`);
      }
      expect(members, name).toContain("\tRATE_LIMITER: DurableObjectNamespace<");
      const optional = [...members.matchAll(/(\w+)\?:/g)].map(([, member]) => member);
      expect(optional, name).toEqual(name === "__BaseEnv_Env" ? ["ANALYTICS", "REQUEST_LOG"] : []);
      expect(wordsOf(members), name).toEqual(wordsOf(interfaces[0]?.[2] ?? ""));
    }
  });

  it("match the generated types that are committed", async () => {
    const { stdout } = await runWrangler(CHECK_TYPES);
    expect(stdout).toContain("up to date");
  });
});
