import { randomUUID } from "node:crypto";
import {
  chmod,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  stat,
  writeFile,
} from "node:fs/promises";
import { dirname, join, relative } from "node:path";

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

/**
 * Writes files to a folder by their relative paths, and deletes all other files in the folder.
 * Replaces each changed file with an atomic rename, because a service may be serving the files.
 */
export async function writeFolder(
  folder: string,
  files: ReadonlyMap<string, string | Uint8Array>,
): Promise<void> {
  await mkdir(folder, { recursive: true });
  const drafts = await mkdtemp(`${folder}-`);
  try {
    for (const [name, content] of files) {
      const bytes = Buffer.from(content);
      const current = await readFile(join(folder, name)).catch(() => null);
      if (current?.equals(bytes)) continue;
      const draft = join(drafts, "draft");
      await writeFile(draft, bytes);
      await mkdir(dirname(join(folder, name)), { recursive: true });
      await rename(draft, join(folder, name));
    }
  } finally {
    await rm(drafts, { recursive: true });
  }
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (entry.isFile() && !files.has(relative(folder, path))) await rm(path, { force: true });
  }
}
