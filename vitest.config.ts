import { cloudflareTest, readD1Migrations } from "@cloudflare/vitest-pool-workers";
import { defineConfig } from "vitest/config";

/** Tests of the commands and of whole processes; all others run inside workerd. */
const NODE_TESTS = ["test/cli/**/*.test.ts", "test/deploy/**/*.test.ts", "test/e2e/**/*.test.ts"];

export default defineConfig({
  test: {
    projects: [
      {
        plugins: [
          cloudflareTest(async () => ({
            wrangler: { configPath: "./wrangler.toml" },
            miniflare: { bindings: { TEST_MIGRATIONS: await readD1Migrations("migrations") } },
          })),
        ],
        test: {
          name: "worker",
          include: ["test/**/*.test.ts"],
          exclude: NODE_TESTS,
          setupFiles: ["test/apply-migrations.ts"],
        },
      },
      {
        test: {
          name: "node",
          include: NODE_TESTS,
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
    ],
  },
});
