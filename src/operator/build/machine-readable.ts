import { description } from "../../openapi/description.ts";
import { type Contact, info, openApiDocument } from "../../openapi/document.ts";
import { paths } from "../../openapi/operations.ts";
import { codesOf, ERROR_ANSWERS } from "../../openapi/responses.ts";

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

/** Returns the reference in the format of llmstxt.org. */
function llmsText(origin: string, contact?: Contact): string {
  const operations = Object.entries(paths).flatMap(
    ([path, { parameters: _parameters, ...methods }]) =>
      Object.entries(methods).map(
        ([method, operation]) =>
          `### ${method.toUpperCase()} ${origin}/v1${path}\n\n${operation.description}`,
      ),
  );
  const errors = Object.values(ERROR_ANSWERS).map((answer) => {
    const { codes, status } = codesOf(answer);
    return `- ${status} (${codes.map((code) => `\`${code}\``).join(", ")}): ${answer.description}`;
  });
  return `# ${info.title}

> ${info.summary}

Send \`Authorization: Bearer <API_KEY>\` with every request.

- [OpenAPI 3.1 document](${origin}/openapi.json): parameters, headers, answers and examples
- [Reference page](${origin}/): the same for people, with a console
${contact === undefined ? "" : `- Questions to the operator: ${Object.values(contact).join()}\n`}
## Operations

${operations.join("\n\n")}

## Errors

An error has the body \`{"code": string, "message": string, "status": integer}\`. Decide by \`code\`.

${errors.join("\n")}

${description.slice(description.indexOf("## "))}
`;
}
