import { readFileSync } from "node:fs";

interface Case {
  readonly title: string;
  readonly commands: readonly string[];
  /** The lines of the documented output that are the same in every run. */
  readonly promises: readonly string[];
}

const FENCED = /^```(?<language>\w*)\n(?<text>[^]*?)^```$/gm;

/** Reads the level-two sections of a document. */
export function readCases(file: string): Case[] {
  const [, ...sections] = readFileSync(file, "utf8").split(/^## /m);
  return sections.map((section) => {
    const blocks = [...section.matchAll(FENCED)].map(({ groups }) => groups ?? {});
    const linesOf = (language: string) =>
      blocks
        .filter((block) => block["language"] === language)
        .flatMap((block) => (block["text"] ?? "").trim().split("\n"));
    return {
      title: section.slice(0, section.indexOf("\n")),
      commands: linesOf("sh"),
      promises: linesOf("").filter((line) => /^[A-Za-z][^0-9…│]*$/.test(line)),
    };
  });
}

/**
 * Parses a line of a document as a shell would. Returns the words of its command, its input after
 * `<<<`, and its output file after `>`.
 */
export function parseLine(line: string, variables: Readonly<Record<string, string>> = {}) {
  const today = new Date().toISOString().slice(0, 10);
  const expanded = line
    .replaceAll("$(date +%F)", today)
    .replaceAll(/\$([A-Z]+)/g, (_, name: string) => variables[name] ?? "");
  const parts = [...expanded.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)];
  const words = parts.map(([, single, double, plain]) => single ?? double ?? plain ?? "");
  const end = words.findIndex((word) => /^(?:>|<|<<<|#|\|+)$/.test(word));
  const [mark, operand = ""] = end === -1 ? [] : words.slice(end);
  const input = mark === "<<<" ? operand : "";
  const output = mark === ">" ? operand : undefined;
  return { words: end === -1 ? words : words.slice(0, end), input, output };
}
