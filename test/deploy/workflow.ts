import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { data, Evaluator, Lexer, Parser } from "@actions/expressions";
import { parse } from "yaml";

// GitHub's parser imports JSON without saying that it is, which only bundlers take.
registerHooks({
  load: (url, context, nextLoad) => {
    const importAttributes = url.endsWith(".json") ? { type: "json" } : context.importAttributes;
    return nextLoad(url, { ...context, importAttributes });
  },
});
const { convertWorkflowTemplate, NoOperationTraceWriter, parseWorkflow } =
  await import("@actions/workflow-parser");

const FILE = ".github/workflows/ci.yml";

export interface WorkflowStep {
  readonly uses?: string;
  readonly run?: string;
  readonly with?: Readonly<Record<string, unknown>>;
  readonly env?: Readonly<Record<string, string>>;
}

export interface Job {
  readonly needs?: string;
  readonly if?: string;
  readonly environment?: string;
  readonly permissions?: object;
  readonly "timeout-minutes"?: number;
  readonly concurrency?: { readonly group: string; readonly "cancel-in-progress": boolean };
  readonly strategy?: { readonly matrix: Readonly<Record<string, readonly unknown[]>> };
  readonly steps: readonly WorkflowStep[];
}

export interface Workflow {
  readonly on: Readonly<Record<string, unknown>>;
  readonly permissions: Readonly<Record<string, string>>;
  readonly concurrency: { readonly group: string; readonly "cancel-in-progress": string };
  readonly jobs: Readonly<Record<string, Job>>;
}

const content = readFileSync(FILE, "utf8");

export const workflow = parse(content) as Workflow;

/** What GitHub's own parser finds wrong with the workflow. */
export async function workflowErrors(text = content): Promise<string[]> {
  const parsed = parseWorkflow({ name: FILE, content: text }, new NoOperationTraceWriter());
  if (parsed.value === undefined) return parsed.context.errors.getErrors().map(String);
  await convertWorkflowTemplate(parsed.context, parsed.value);
  return parsed.context.errors.getErrors().map(({ message }) => message);
}

/** What GitHub's own evaluator makes of an expression over `github.event_name` and `github.ref`. */
export function evaluate(expression: string, event: { event_name: string; ref: string }): boolean {
  const text = expression.replace(/^\$\{\{(.*)\}\}$/, "$1");
  const syntax = new Parser(new Lexer(text).lex().tokens, ["github"], []).parse();
  const members = Object.entries(event).map(([key, value]) => ({
    key,
    value: new data.StringData(value),
  }));
  const github = { key: "github", value: new data.Dictionary(...members) };
  return new Evaluator(syntax, new data.Dictionary(github)).evaluate().coerceString() === "true";
}
