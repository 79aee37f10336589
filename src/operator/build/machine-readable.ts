import type { Schema } from "@cfworker/json-schema";
import { description } from "../../openapi/description.ts";
import { type Contact, info, openApiDocument } from "../../openapi/document.ts";
import { type Field, readDocument, type ReadDocument } from "../../openapi/read-document.ts";

/** Returns the OpenAPI document, the API catalog (RFC 9727) and the text for language models. */
export function machineReadableFiles(
  origin: string,
  contact?: Contact,
): [path: string, content: string][] {
  return [
    ["openapi.json", openApiDocument(origin, contact)],
    [".well-known/api-catalog", apiCatalog(origin)],
    ["llms.txt", llmsText(origin, contact)],
  ];
}

function apiCatalog(origin: string): string {
  const api = {
    anchor: `${origin}/v1`,
    "service-desc": [{ href: `${origin}/openapi.json`, type: "application/json" }],
    "service-doc": [{ href: `${origin}/`, type: "text/html" }],
  };
  return `${JSON.stringify({ linkset: [api] }, undefined, 2)}\n`;
}

/** Returns the whole reference in the format of llmstxt.org. */
function llmsText(origin: string, contact?: Contact): string {
  const { operations, components } = readDocument(JSON.parse(openApiDocument(origin, contact)));
  const { Order: order, Error: error } = components.schemas;
  // Object keys that are integers are in ascending order.
  const errors = Object.fromEntries(
    operations.flatMap(({ responses }) =>
      Object.entries(responses).filter(([status]) => Number(status) >= 400),
    ),
  );
  return `# ${info.title}

> ${info.summary}

Send \`Authorization: Bearer <API_KEY>\` with every request.

- [OpenAPI 3.1 document](${origin}/openapi.json): the same for programs, with schemas and examples
- [Reference page](${origin}/): the same for people, with a console
${contact === undefined ? "" : `- Questions to the operator: ${Object.values(contact).join()}\n`}
## Operations

${operations.map((operation) => operationText(origin, operation)).join("\n\n")}

## Fields of an order

${order["description"]}

${fieldLines(fieldsOf(order))}

## Headers of responses

${Object.entries(components.headers).map(headerLine).join("\n")}

## Errors

${error["description"]} Decide by \`code\`.

${fieldLines(fieldsOf(error))}

${Object.entries(errors).map(errorLine).join("\n")}

${description.slice(description.indexOf("## "))}
`;
}

type Operation = ReadDocument["operations"][number];
type Answer = Operation["responses"][string];
type Header = Answer["headers"][string];

function operationText(origin: string, operation: Operation): string {
  const { method, path, description: text, parameters, responses } = operation;
  const successes = Object.entries(responses).filter(([status]) => Number(status) < 400);
  return `### ${method} ${origin}/v1${path}

${text}

Parameters:

${fieldLines(parameters)}

Responses, besides errors (${Object.keys(responses).slice(successes.length).join(", ")}):

${successes.map(([status, answer]) => `- ${status}: ${answer.description}`).join("\n")}`;
}

function fieldsOf({ properties = {} }: Schema): Field[] {
  return Object.entries(properties as Readonly<Record<string, Schema>>).map(([name, schema]) => ({
    name,
    schema,
    description: String(schema["description"]),
  }));
}

function fieldLines(fields: readonly Field[]): string {
  return fields
    .map(({ name, in: place, description: text, schema: { format, type, anyOf } }) => {
      const kind = anyOf === undefined ? (format ?? type) : "int64 or string";
      return `- \`${name}\` (${[place, kind].filter(Boolean).join(", ")}): ${text}`;
    })
    .join("\n");
}

function headerLine([name, { description: text, example }]: [string, Header]): string {
  return `- \`${name}\`: ${text} Example: \`${example}\``;
}

function errorLine([status, { description: text, content }]: [string, Answer]): string {
  const codes = Object.keys(content?.["application/json"].examples ?? {});
  return `- ${status} (${codes.map((code) => `\`${code}\``).join(", ")}): ${text}`;
}
