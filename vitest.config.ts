import { cloudflareTest, readD1Migrations } from "@cloudflare/vitest-plugin";
import { defineConfig } from "vitest/config";
import { buildAll } from "./src/operator/build/all.ts";

// What `wrangler` builds first: the folder of wrangler.toml that workerd insists on, and a module.
await buildAll();

// A test file names where it runs: NAME.core.test.ts and NAME.simulation.test.ts (longer) are pure code
// in Node, NAME.worker.test.ts runs in workerd, NAME.node.test.ts starts processes or runs commands.
export default defineConfig({
  test: {
    // Many tests wait for processes or a real minute rather than for the processor.
    maxWorkers: 3,
    projects: [
      {
        test: {
          name: "core",
          // The files share processes and modules: a process and its imports cost more than most files.
          isolate: false,
          setupFiles: "test/support/every-core-file.ts",
          include: ["test/**/*.{core,simulation}.test.ts"],
          testTimeout: 30_000,
        },
      },
      {
        plugins: [
          cloudflareTest(async () => ({
            wrangler: { configPath: "./wrangler.toml" },
            miniflare: {
              bindings: {
                TEST_MIGRATIONS: {
                  orders: await readD1Migrations("migrations/orders"),
                  keys: await readD1Migrations("migrations/keys"),
                },
              },
            },
          })),
        ],
        test: {
          name: "worker",
          // One workerd runs all of them: starting another one for each file took most of the time.
          isolate: false,
          setupFiles: "test/support/every-worker-test.ts",
          testTimeout: 30_000,
          include: ["test/**/*.worker.test.ts"],
        },
      },
      {
        test: {
          name: "node",
          include: ["test/**/*.node.test.ts"],
          testTimeout: 60_000,
          hookTimeout: 120_000,
        },
      },
    ],
  },
});
