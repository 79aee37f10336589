import { cloudflareTest, readD1Migrations } from "@cloudflare/vitest-plugin";
import { defineConfig } from "vitest/config";
import { buildAll } from "./src/operator/build/all.ts";

// What `wrangler` builds first: the folder of wrangler.toml that workerd insists on, and a module.
await buildAll();

/** Tests of pure code, which needs no platform. */
const CORE_TESTS = [
  "test/api-keys/overtaking-look-ups.test.ts",
  "test/circuit-breaker.test.ts",
  "test/config.test.ts",
  "test/db/{availability,batched-query}.test.ts",
  "test/orders/*.core.test.ts",
  "test/api-keys/key.test.ts",
  "test/faults/isolates/*.test.ts",
  "test/orders/order.test.ts",
  // Those of the Durable Object run with all others inside workerd.
  "test/rate-limit/!(durable-object*).test.ts",
  "test/telemetry/anonymous-sample.test.ts",
  "test/usage/**/*.test.ts",
];

/** Tests of the commands and of whole processes. */
const NODE_TESTS = [
  "test/cli/**/*.test.ts",
  "test/client/!(workers).test.ts",
  "test/deploy/**/*.test.ts",
  "test/e2e/**/*.test.ts",
  "test/fuzz/sockets/*.test.ts",
  "test/openapi/**/*.test.ts",
  "test/real-clients/**/*.test.ts",
  "test/reference/**/*.test.ts",
  "test/usage-page/**/*.test.ts",
];

export default defineConfig({
  test: {
    // Many tests wait for processes or a real minute rather than for the processor.
    maxWorkers: 3,
    projects: [
      {
        test: { name: "core", include: CORE_TESTS, testTimeout: 30_000 },
      },
      {
        plugins: [
          cloudflareTest(async () => ({
            wrangler: { configPath: "./wrangler.toml" },
            miniflare: { bindings: { TEST_MIGRATIONS: await readD1Migrations("migrations") } },
          })),
        ],
        test: {
          name: "worker",
          // One workerd runs all of them: starting another one for each file took most of the time.
          isolate: false,
          setupFiles: "test/fixtures/every-worker-test.ts",
          testTimeout: 30_000,
          include: ["test/**/*.test.ts"],
          exclude: [...CORE_TESTS, ...NODE_TESTS],
        },
      },
      {
        test: {
          name: "node",
          include: NODE_TESTS,
          testTimeout: 60_000,
          hookTimeout: 120_000,
        },
      },
    ],
  },
});
