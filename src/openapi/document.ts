import { stringify } from "lossless-json";
import { description } from "./description.ts";
import { componentHeaders } from "./headers.ts";
import { paths } from "./operations.ts";
import { componentResponses } from "./responses.ts";
import { componentSchemas } from "./schemas.ts";

export const info = {
  title: "Store Orders",
  version: "1.0.0",
  summary: "Lists and cancels the orders of a store.",
  description,
  license: { name: "MIT", identifier: "MIT" },
} as const;

/** The address for questions about a deployment: the operator's email address or URL. */
export type Contact = { readonly email: string } | { readonly url: string };

/**
 * Returns the OpenAPI 3.1 document as JSON text, with exact int64 bounds.
 *
 * @param origin the origin of the server URL, such as `https://orders.example`. If empty, the
 *   server URL is relative to the document's URL.
 */
export function openApiDocument(origin = "", contact?: Contact): string {
  const document = {
    openapi: "3.1.1",
    info: contact === undefined ? info : { ...info, contact },
    servers: [{ url: `${origin}/v1`, description: "The server that serves this document." }],
    security: [{ apiKey: [] }],
    tags: [
      { name: "Orders", description: "List and cancel the orders of the store." },
      { name: "Quota", description: "Look at what a key may still send." },
    ],
    paths,
    components: {
      securitySchemes: {
        apiKey: {
          type: "http",
          scheme: "bearer",
          bearerFormat: "API key",
          description: "Your API key as the bearer token: `Authorization: Bearer sord_…`",
        },
      },
      parameters: {
        "X-Request-Id": {
          name: "X-Request-Id",
          in: "header",
          description:
            "Your own id for the request, such as `nightly-export-17`. The response repeats it.",
          schema: { type: "string", maxLength: 255, pattern: "^[\\w=-]+$" },
        },
      },
      headers: componentHeaders,
      schemas: componentSchemas(),
      responses: componentResponses(),
    },
  };
  return `${stringify(document, undefined, 2) ?? ""}\n`;
}
