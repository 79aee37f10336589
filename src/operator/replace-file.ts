import { randomUUID } from "node:crypto";
import * as fs from "node:fs/promises";
import { dirname, join, relative } from "node:path";

/**
 * Writes a file under a temporary name and renames it at the end, so a failure keeps the old file.
 * The new file has the permissions of the old one. A device or pipe is written to directly.
 *
 * @throws an Error if the path is a folder; the error of `write`.
 */
export async function replaceFile<T>(
  file: string,
  write: (temporary: string) => Promise<T>,
): Promise<T> {
  const existing = await fs.stat(file).catch(() => undefined);
  if (existing?.isDirectory()) throw new Error(`${file} is a folder: name a file`);
  if (existing?.isFile() === false) return write(file);
  const target = existing === undefined ? file : await fs.realpath(file);
  const temporary = `${target}.${randomUUID()}.tmp`;
  try {
    if (existing !== undefined) {
      await fs.writeFile(temporary, "", { mode: 0o600 });
      await fs.chmod(temporary, existing.mode);
    }
    const result = await write(temporary);
    await fs.rename(temporary, target);
    return result;
  } catch (error) {
    await fs.rm(temporary, { force: true });
    // A failed write has no path.
    throw Object(error).syscall === "write" ? Object.assign(error as Error, { path: file }) : error;
  }
}

/**
 * Writes files to a folder by their relative paths, and deletes all other files in the folder.
 * Replaces each changed file with an atomic rename, because a service may be serving the files.
 */
export async function writeFolder(
  folder: string,
  files: ReadonlyMap<string, string | Uint8Array>,
): Promise<void> {
  await fs.mkdir(folder, { recursive: true });
  // Beside the folder, because two builds may write to it at the same time.
  await using drafts = await fs.mkdtempDisposable(`${folder}-`);
  for (const [name, content] of files) {
    const file = join(folder, name);
    const current = await fs.readFile(file).catch(() => null);
    if (current?.equals(Buffer.from(content))) continue;
    const draft = join(drafts.path, "draft");
    await fs.writeFile(draft, content);
    await fs.mkdir(dirname(file), { recursive: true });
    await fs.rename(draft, file);
  }
  for (const entry of await fs.readdir(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (entry.isFile() && !files.has(relative(folder, path))) await fs.rm(path, { force: true });
  }
}
