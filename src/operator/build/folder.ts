import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";

/** The environment variable with the output folder of the static files. `npm start` sets it. */
export const SITE_FOLDER = "STORE_ORDERS_SITE";

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
