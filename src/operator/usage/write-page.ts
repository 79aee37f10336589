import { rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import type { UsageReport } from "./usage-report.ts";
import { usagePage } from "./page.ts";

/**
 * Writes the page of a usage report. What stands there stays until the page is written whole.
 *
 * @throws an Error for the operator where that cannot be done.
 */
export async function writeUsagePage(report: UsageReport, file: string, now: Date): Promise<void> {
  const folder = dirname(file);
  const isFolder = (await stat(folder).catch(() => undefined))?.isDirectory();
  if (isFolder !== true) throw new Error(`there is no folder ${folder} to write the page into`);
  const existing = await stat(file).catch(() => undefined);
  if (existing?.isDirectory()) throw new Error(`${file} is a folder`);
  const temporary = `${file}.${process.pid}.tmp`;
  try {
    await writeFile(temporary, await usagePage(report, now), { flag: "wx" });
    await rename(temporary, file);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}
