import { stringify } from "lossless-json";
import { description } from "./description.ts";
import { componentHeaders } from "./headers.ts";
import { paths } from "./operations.ts";
import { componentResponses } from "./responses.ts";
import { componentSchemas } from "./schemas.ts";

/**
 * The OpenAPI 3.1 document of the service as JSON text, made from the schemas that the service
 * validates with. Its bounds of int64 are exact, so that not every reader can keep their digits.
 */
export function openApiDocument(): string {
  const document = {
    openapi: "3.1.1",
    info: {
      title: "Store Orders",
      version: "1.0.0",
      summary: "Lists and cancels the orders of a store.",
      description,
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [{ url: "/v1", description: "The server that this document comes from." }],
    security: [{ apiKey: [] }],
    tags: [{ name: "Orders", description: "What a client can do with the orders of the store." }],
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
          description: "Your own name for the request, which its answer repeats.",
          schema: { type: "string", maxLength: 255, pattern: "^[\\w=-]+$" },
          example: "nightly-export-17",
        },
      },
      headers: componentHeaders,
      schemas: componentSchemas(),
      responses: componentResponses(),
    },
  };
  const text = stringify(document, undefined, 2);
  if (text === undefined) throw new Error("The document is not JSON.");
  return `${text}\n`;
}
