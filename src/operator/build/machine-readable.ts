import { description } from "../../openapi/description.ts";
import { type Contact, info, openApiDocument } from "../../openapi/document.ts";
import { DAY_SECONDS } from "../../rules/days.ts";
import { readDocument } from "../../openapi/read-document.ts";
import { CLIENT_PACKAGE } from "./client-package.ts";

/** How long a security.txt is valid after its build: less than a year (RFC 9116, section 2.5.5). */
const SECURITY_TEXT_DAYS = 364;

/**
 * Returns the OpenAPI document, the API catalog (RFC 9727), the text for language models and, if
 * there is a contact, security.txt (RFC 9116).
 */
export function machineReadableFiles(origin: string, contact?: Contact) {
  const document = openApiDocument(origin, contact);
  return {
    "openapi.json": document,
    ".well-known/api-catalog": apiCatalog(origin),
    "llms.txt": llmsText(document, origin, contact),
    ...(contact && { ".well-known/security.txt": securityText(origin, contact) }),
  };
}

function securityText(origin: string, contact: Contact): string {
  const address = "email" in contact ? `mailto:${contact.email}` : contact.url;
  const expires = new Date(Date.now() + SECURITY_TEXT_DAYS * DAY_SECONDS * 1_000);
  const own = origin === "" ? "" : `Canonical: ${origin}/.well-known/security.txt\n`;
  return `Contact: ${address}\nExpires: ${expires.toISOString()}\n${own}`;
}

function apiCatalog(origin: string): string {
  const api = {
    anchor: `${origin}/v1`,
    "service-desc": [{ href: `${origin}/openapi.json`, type: "application/json" }],
    "service-doc": [{ href: `${origin}/`, type: "text/html" }],
  };
  return `${JSON.stringify({ linkset: [api] }, undefined, 2)}\n`;
}

/** Returns the whole reference as Markdown for language models, in the format of llmstxt.org. */
function llmsText(document: string, origin: string, contact?: Contact): string {
  const { operations, components } = readDocument(JSON.parse(document));
  const { headers, schemas } = components;
  const list = (title: string, parts: object = {}) =>
    [
      `${title}\n`,
      ...Object.entries(parts).map(([name, part]) => `- \`${name}\`: ${part.description}`),
    ].join("\n");
  const operationText = (operation: (typeof operations)[0]) =>
    [
      `## ${operation.method} ${origin}/v1${operation.path}\n\n${operation.description}\n`,
      ...operation.parameters.map(({ name, in: place, description: meaning }) => {
        return `- \`${name}\` (${place}): ${meaning}`;
      }),
      list("\nAnswers:", operation.responses),
    ].join("\n");
  return `# ${info.title}

> ${info.summary}

Send \`Authorization: Bearer <API_KEY>\` with every request. Each error has a JSON body with \`code\`, \`message\` and \`status\`; decide by \`code\`.

${operations.map(operationText).join("\n\n")}

${list("## Fields of an order", schemas.Order["properties"])}

${list("## Fields of a quota", schemas.Quota["properties"])}

${list("## Fields of an error", schemas.Error["properties"])}

${list("## Headers of answers", headers)}

${description.slice(description.indexOf("## "))}

## Reference

- [OpenAPI 3.1 document](${origin}/openapi.json): all fields, headers, answers and error codes
- [Reference page](${origin}/): the same for people, who can send requests there
- [Client for TypeScript and JavaScript](${origin}/${CLIENT_PACKAGE}): \`npm install\` takes this address
${contact === undefined ? "" : `- Questions to the operator: ${Object.values(contact).join()}\n`}`;
}
