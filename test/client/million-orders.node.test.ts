import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const run = promisify(execFile);

test("reads a million orders in a heap of 32 MB, which does not grow", async () => {
  const script = join(import.meta.dirname, "million-orders.ts");
  const { stdout } = await run(process.execPath, [
    "--expose-gc",
    "--max-old-space-size=32",
    script,
  ]);
  const { count, sum, growthBytes } = JSON.parse(stdout);
  expect(count).toBe(1_000_000);
  expect(BigInt(sum)).toBe(9_000_000_000_000_000_000n * 1_000_000n + (1_000_000n * 999_999n) / 2n);
  expect(growthBytes).toBeLessThan(2_000_000);
}, 120_000);
