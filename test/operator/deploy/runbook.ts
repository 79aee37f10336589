import { readFileSync } from "node:fs";

interface Case {
  readonly title: string;
  /** The command lines of the runbook case, in the order in which they must run. */
  readonly commands: readonly string[];
  /** The output lines in the runbook that are the same in every run. */
  readonly promises: readonly string[];
}

const FENCED = /^```(?<language>\w*)\n(?<text>[^]*?)^```$/gm;

/** Reads the cases of a runbook. A case is a level-two heading with the fenced code below it. */
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
 * Turns the commands of a runbook case into a shell script that runs without a terminal.
 *
 * @param variables the names of variables that the test sets. Lines of the runbook that set these
 *   variables are examples, so the script leaves them out.
 */
export function toScript(commands: readonly string[], variables: readonly string[]): string {
  const isExample = (line: string) =>
    variables.some((name) => line.startsWith(`${name}=`) && !line.includes("$("));
  return commands
    .filter((line) => !isExample(line))
    .map((line) =>
      line.replace(
        /^npm run (?:time-travel -- restore|keys -- (?:revoke|rotate|reset)) .*/,
        "$& --yes",
      ),
    )
    .join("\n");
}
