import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

/**
 * Makes a folder hold these files, by their names, and nothing else. Writes only changed files,
 * each with one rename, because a service may be serving them.
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
      await writeFile(join(drafts, name), bytes);
      await rename(join(drafts, name), join(folder, name));
    }
  } finally {
    await rm(drafts, { recursive: true });
  }
  for (const name of await readdir(folder)) {
    if (!files.has(name)) await rm(join(folder, name), { recursive: true, force: true });
  }
}
