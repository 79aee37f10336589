import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, onTestFinished, TestRunner } from "vitest";

/** Makes a folder that is removed after the test, or outside a test after all tests of the file. */
export function testFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "store-orders-test-"));
  const after = TestRunner.getCurrentTest() === undefined ? afterAll : onTestFinished;
  after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
