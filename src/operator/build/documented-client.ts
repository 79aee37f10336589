import { readFile } from "node:fs/promises";
import { join } from "node:path";

const API = join(import.meta.dirname, "..", "..", "..", "docs", "api.md");

/** A code block of docs/api.md: a command to run or a file to write. */
interface CodeBlock {
  /** The name of the code block's language, which follows the opening Markdown fence. */
  readonly fence: string;
  readonly code: string;
}

/**
 * Reads the code blocks of the generated client from docs/api.md. Tests run the command and the
 * files.
 *
 * @throws {Error} if docs/api.md has no section on generated clients.
 */
export async function documentedClient(): Promise<CodeBlock[]> {
  const [, section] = /^## Generated clients\n([^]*?)^## /m.exec(await readFile(API, "utf8")) ?? [];
  if (section === undefined) throw new Error(`${API} has no section "Generated clients".`);
  return [...section.matchAll(/^```(\w+)\n([^]*?)\n```$/gm)].map(([, fence = "", code = ""]) => ({
    fence,
    code,
  }));
}
