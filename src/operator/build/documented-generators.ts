import { readFile } from "node:fs/promises";
import { join } from "node:path";

const API = join(import.meta.dirname, "..", "..", "..", "docs", "api.md");

/** A client generator that docs/api.md describes. */
interface DocumentedGenerator {
  readonly name: string;
  /** The code blocks with the generator's command and files, in the order of the document. */
  readonly blocks: readonly CodeBlock[];
}

interface CodeBlock {
  /** The language's name after the Markdown fence. */
  readonly fence: string;
  readonly code: string;
}

/**
 * Reads the client generators from docs/api.md. Tests run each generator's commands with the files
 * shown there. The code blocks before the first generator apply to all generators.
 *
 * @throws {Error} if the document has no section on generated clients.
 */
export async function documentedGenerators(): Promise<DocumentedGenerator[]> {
  const [, section] = /^## Generated clients\n([^]*?)^## /m.exec(await readFile(API, "utf8")) ?? [];
  if (section === undefined) throw new Error(`${API} has no section "Generated clients".`);
  const [shared = "", ...generators] = section.split(/^### /m);
  return generators.map((text) => ({
    name: text.slice(0, text.indexOf("\n")),
    blocks: [...blocksIn(shared), ...blocksIn(text)],
  }));
}

function blocksIn(markdown: string): CodeBlock[] {
  return [...markdown.matchAll(/^```(\w+)\n([^]*?)\n```$/gm)].map(([, fence = "", code = ""]) => ({
    fence,
    code,
  }));
}
