import { readFile } from "node:fs/promises";
import { join } from "node:path";

const API = join(import.meta.dirname, "..", "..", "..", "docs", "api.md");

/** A generator of clients, as docs/api.md shows it. */
interface DocumentedGenerator {
  readonly name: string;
  /** The command and the files of a client, in the order of the document. */
  readonly blocks: readonly CodeBlock[];
}

interface CodeBlock {
  /** The language's name after the Markdown fence. */
  readonly fence: string;
  readonly code: string;
}

/**
 * Reads the generators of clients from docs/api.md, whose commands and files the tests run. The
 * first file there belongs to each of them.
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
