import { STATUS_CODES } from "node:http";
import type { Schema } from "@cfworker/json-schema";
import { parse, parseNumberAndBigInt, stringify } from "lossless-json";
import {
  type Content,
  type DocumentedAnswer,
  type Field,
  readDocument,
} from "../../openapi/read-document.ts";

/** The facts that the reference page shows, besides the constants of the service. */
export interface PageFacts {
  /** The OpenAPI document as JSON. Fields, headers, statuses and examples come only from it. */
  readonly document: string;
  /** True if lists come from the nearest replica, so they can be out of date (var `LIST_READS`). */
  readonly hasNearReads: boolean;
  /** True if the page is for `npm start`: it can then provoke refusals. */
  readonly isLocal: boolean;
  readonly limitsPicture: string;
  /** The file name of the client's package, which the service offers beside the page. */
  readonly clientPackage: string;
  /** The code blocks of a generated client: a command to run and the files to write. */
  readonly generatedClient: readonly { readonly fence: string; readonly code: string }[];
}

export type Reference = ReturnType<typeof readReference>;
export type Operation = Reference["operations"][number];
export type ResponseFacts = Operation["responses"][number];

/** The address of `npm start`. In browsers, a script replaces it by the origin of the page. */
export const LOCAL_ORIGIN = "http://localhost:8787";

/** Reads the content that the page shows from the JSON text of an OpenAPI document. */
export function readReference(text: string) {
  const document = readDocument(parse(text, undefined, parseNumberAndBigInt));
  const { info, servers, components } = document;
  const all = document.operations.flatMap((operation) => Object.entries(operation.responses));
  const headers = Object.entries(components.headers).map(([name, header]) => {
    const statuses = all.flatMap(([status, own]) => (name in own.headers ? [status] : []));
    return {
      name,
      ...header,
      /** True if the OpenAPI document lists the header for every response. */
      isCommon: statuses.length === all.length,
      statuses: [...new Set(statuses)].toSorted(),
    };
  });
  const factsOf = ([status, response]: [string, DocumentedAnswer]) => ({
    status: Number(status),
    reason: STATUS_CODES[status] ?? "",
    description: response.description,
    headers: headers
      .filter(({ name }) => name in response.headers)
      .map((header) => ({ ...header, ...response.headers[header.name] })),
    examples: examplesOf(response.content?.["application/json"]),
    fields: fieldsOf(response.content?.["application/json"].schema ?? {}),
  });
  const { url } = servers[0];
  const server = URL.parse(url);
  const basePath = server?.pathname ?? url;
  const responses = document.operations.map((one) => Object.entries(one.responses).map(factsOf));
  const examples = responses.map((those) => those.map((one) => JSON.stringify(one.examples)));
  const operations = document.operations.map((operation, index) => ({
    ...operation,
    path: `${basePath}${operation.path}`,
    responses: responses[index] ?? [],
  }));
  return {
    ...info,
    /** The address of the service without `/v1`. */
    origin: server?.origin ?? LOCAL_ORIGIN,
    /** The path with which every operation begins, such as `/v1`. */
    basePath,
    authentication: components.securitySchemes.apiKey.description,
    operations,
    errorFields: fieldsOf(components.schemas.Error),
    headers,
    /** Whether every operation can have the response. */
    isEverywhere: ({ examples: own }: { readonly examples: object }) =>
      examples.every((those) => those.includes(JSON.stringify(own))),
    /** The first documented error response for each status. */
    errors: [
      ...new Map(
        responses
          .flat()
          .toReversed()
          .map((one) => [one.status, one]),
      ).values(),
    ]
      .filter(({ status }) => status >= 400)
      .toSorted((one, other) => one.status - other.status),
  };
}

/** Returns the fields of an object, of the objects in an array, and of the objects in fields. */
function fieldsOf({ items, anyOf = [], properties = {}, required = [] }: Schema): Field[] {
  const inner = [...anyOf, ...(items === undefined ? [] : [items as Schema])].flatMap(fieldsOf);
  const own = Object.entries(properties as Readonly<Record<string, Schema>>);
  return own.reduce<Field[]>((fields, [name, schema]) => {
    const isRequired = required.includes(name);
    const description = String(schema["description"] ?? "");
    const within = fieldsOf(schema).map((field) => ({ ...field, name: `${name}.${field.name}` }));
    return [...fields, { name, schema, required: isRequired, description }, ...within];
  }, inner);
}

/** Returns the examples of a body with their error codes; one empty example if there is no body. */
function examplesOf(content: Content | undefined): readonly {
  readonly code?: string;
  readonly message?: string;
  readonly body?: string | undefined;
}[] {
  if (content === undefined) return [{}];
  if (content.examples === undefined) return [{ body: stringify(content.example, undefined, 2) }];
  return Object.entries(content.examples).map(([code, { value }]) => ({
    code,
    message: value.message,
    body: stringify(value, undefined, 2),
  }));
}
