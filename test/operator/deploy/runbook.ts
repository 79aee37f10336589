import { readFileSync } from "node:fs";

/** One of the runbook's cases. */
export interface Case {
  readonly title: string;
  /** What to type, in order. */
  readonly commands: readonly string[];
  /** Lines of output that are shown and have nothing in them that differs from case to case. */
  readonly promises: readonly string[];
}

const FENCED = /^```(?<language>\w*)\n(?<text>[^]*?)^```$/gm;

/** Reads the cases of a runbook: its level-two headings, with the code fenced below each. */
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
 * A script of commands for nobody at a terminal.
 *
 * @param variables that the environment sets: what the runbook sets them to is an example.
 */
export function toScript(commands: readonly string[], variables: readonly string[]): string {
  const isExample = (line: string) =>
    variables.some((name) => line.startsWith(`${name}=`) && !line.includes("$("));
  return commands
    .filter((line) => !isExample(line))
    .map((line) =>
      line
        .replace(/^npm run time-travel -- restore .*/, "$& --yes")
        .replace(/^npm run metrics /, "CLOUDFLARE_API_BASE_URL=$ANALYTICS_API $&"),
    )
    .join("\n");
}
