import { randomUUID } from "node:crypto";
import { chmod, realpath, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname } from "node:path";

/**
 * Writes a file under a temporary name and renames it at the end, so a failure keeps the old file.
 * The new file has the permissions of the old one. A device or pipe is written to directly.
 *
 * @throws an Error if the path is a folder or its parent folder is missing; the error of `write`.
 */
export async function replaceFile<T>(
  file: string,
  write: (temporary: string) => Promise<T>,
): Promise<T> {
  const existing = await stat(file).catch(() => undefined);
  if (existing?.isDirectory()) throw new Error(`${file} is a folder: name a file`);
  if (existing !== undefined && !existing.isFile()) return write(file);
  const folder = dirname(file);
  const isFolder = (await stat(folder).catch(() => undefined))?.isDirectory();
  if (isFolder !== true) throw new Error(`there is no folder ${folder}: check the path`);
  const target = existing === undefined ? file : await realpath(file);
  const temporary = `${target}.${randomUUID()}.tmp`;
  try {
    if (existing !== undefined) {
      await writeFile(temporary, "", { mode: 0o600 });
      await chmod(temporary, existing.mode);
    }
    const result = await write(temporary);
    await rename(temporary, target);
    return result;
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}
