import "./src/operator/require-node.js";
import { cloudflareTest, readD1Migrations } from "@cloudflare/vitest-plugin";
import { join } from "node:path";
import { defineConfig } from "vitest/config";

// Processes that the tests start share compiled modules, which saves a twentieth of the test run's
// CPU time.
process.env["NODE_COMPILE_CACHE"] ??= join(import.meta.dirname, "node_modules/.cache/node");

// Far west of UTC and half an hour off, so that a test fails where local time is used for UTC.
process.env["TZ"] = "Pacific/Marquesas";

// Limits for what hangs: where only the machine is slow, nothing fails.
const TIME_LIMITS = { testTimeout: 1_200_000, hookTimeout: 1_200_000 };

// The name of a test file says where its tests run:
// - NAME.core.test.ts and NAME.simulation.test.ts (slower) test pure code in Node.
// - NAME.worker.test.ts runs in workerd.
// - NAME.node.test.ts starts processes or runs commands.
export default defineConfig({
  test: {
    // Keeps transformed modules in node_modules: for other workers, and for the next run.
    fsModuleCache: true,
    reporters: ["default", "./test/support/skip-reporter.ts"],
    teardownTimeout: 300_000,
    projects: [
      {
        // Lets tests in Node run the real Durable Object on a simulated storage.
        resolve: {
          alias: {
            "cloudflare:workers": join(
              import.meta.dirname,
              "test/support/durable-object-in-node.ts",
            ),
          },
        },
        test: {
          name: "core",
          // Each further worker loads all modules again.
          maxWorkers: 2,
          // Projects with different numbers of workers must run one after another.
          sequence: { groupOrder: 0 },
          // Test files share a process and its modules: starting the process and importing the
          // modules takes longer than most test files.
          isolate: false,
          setupFiles: "test/support/every-file-in-node.ts",
          include: ["test/**/*.{core,simulation}.test.ts"],
          ...TIME_LIMITS,
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
          maxWorkers: 2,
          sequence: { groupOrder: 0 },
          // Test files share a few workerd processes, because starting one for each file took most of
          // the test run's time.
          isolate: false,
          globalSetup: "test/support/build-once.ts",
          setupFiles: "test/support/every-worker-test.ts",
          ...TIME_LIMITS,
          include: ["test/**/*.worker.test.ts"],
        },
      },
      {
        test: {
          name: "node",
          // These tests mostly wait for processes and timers: with few workers, cores are idle.
          maxWorkers: 5,
          sequence: { groupOrder: 1 },
          // As in `core`. Most files import the same commands and libraries, which takes a second.
          isolate: false,
          globalSetup: "test/support/build-once.ts",
          setupFiles: "test/support/every-file-in-node.ts",
          include: ["test/**/*.node.test.ts"],
          ...TIME_LIMITS,
        },
      },
    ],
  },
});
