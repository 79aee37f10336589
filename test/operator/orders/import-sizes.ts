import { afterAll, onTestFinished, TestRunner } from "vitest";
import { IMPORT_SIZES } from "../../../src/operator/orders/import.ts";

/** Sets how imports divide orders, until the test ends, or outside of a test the test file. */
export function setImportSizes(sizes: Partial<typeof IMPORT_SIZES>): void {
  const real = { ...IMPORT_SIZES };
  const after = TestRunner.getCurrentTest() === undefined ? afterAll : onTestFinished;
  after(() => void Object.assign(IMPORT_SIZES, real));
  Object.assign(IMPORT_SIZES, sizes);
}
