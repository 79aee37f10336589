import { description } from "../../openapi/description.ts";
import { type Contact, info, openApiDocument } from "../../openapi/document.ts";
import { readDocument } from "../../openapi/read-document.ts";

/** Returns the OpenAPI document, the API catalog (RFC 9727) and the text for language models. */
export function machineReadableFiles(
  origin: string,
  contact?: Contact,
): [path: string, content: string][] {
  const document = openApiDocument(origin, contact);
  return [
    ["openapi.json", document],
    [".well-known/api-catalog", apiCatalog(origin)],
    ["llms.txt", llmsText(document, origin, contact)],
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

/** Returns an introduction and links to the whole reference, in the format of llmstxt.org. */
function llmsText(document: string, origin: string, contact?: Contact): string {
  const { operations } = readDocument(JSON.parse(document));
  return `# ${info.title}

> ${info.summary}

Send \`Authorization: Bearer <API_KEY>\` with every request. Each error has a JSON body with \`code\`, \`message\` and \`status\`; decide by \`code\`.

${operations.map(({ method, path, description: text }) => `## ${method} ${origin}/v1${path}\n\n${text}`).join("\n\n")}

${description.slice(description.indexOf("## "))}

## Reference

- [OpenAPI 3.1 document](${origin}/openapi.json): all fields, headers, answers and error codes
- [Reference page](${origin}/): the same for people, with a console
${contact === undefined ? "" : `- Questions to the operator: ${Object.values(contact).join()}\n`}`;
}
