import { openApiDocument } from "../../src/openapi/document.ts";
import type { SeenAnswer } from "../../src/openapi/documented-answer.ts";
import { type DocumentedAnswer, readDocument } from "../../src/openapi/read-document.ts";

const { operations } = readDocument(JSON.parse(openApiDocument()));

/** The answers in the document with the examples of their headers and bodies, by operation and status. */
export const EXAMPLES: Readonly<Record<string, Readonly<Record<string, SeenAnswer[]>>>> =
  Object.fromEntries(
    operations.map(({ method, path, responses }) => {
      const answers = Object.entries(responses).map(([status, answer]) => {
        const request = { method: status === "405" ? "PUT" : method, path: `/v1${path}` };
        return [status, examplesOf(answer, { ...request, status: Number(status) })] as const;
      });
      return [`${method} ${path}`, Object.fromEntries(answers)];
    }),
  );

function examplesOf(
  { headers, content }: DocumentedAnswer,
  of: Omit<SeenAnswer, "headers" | "body">,
) {
  const sent = Object.entries(headers).map(([name, { example }]) => [name, String(example)]);
  const type = content === undefined ? [] : [["Content-Type", "application/json"]];
  const { example, examples = { only: { value: example } } } = content?.["application/json"] ?? {};
  return Object.values(examples).map(({ value }) => {
    const body = JSON.stringify(value) ?? "";
    return { ...of, headers: new Headers([...sent, ...type] as [string, string][]), body };
  });
}
