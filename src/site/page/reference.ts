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
  readonly limitsPicture: string;
  /** The file name of the client's package, which the service offers beside the page. */
  readonly clientPackage: string;
  /** The code blocks of a generated client: a command to run and the files to write. */
  readonly generatedClient: readonly { readonly fence: string; readonly code: string }[];
}

export type Reference = ReturnType<typeof readReference>;
export type Operation = Reference["list"];
export type Answer = Operation["answers"][number];

/** The address of `npm start`. In browsers, a script replaces it by the origin of the page. */
export const LOCAL_ORIGIN = "http://localhost:8787";

/**
 * Reads the content that the page shows from the JSON text of an OpenAPI document.
 *
 * @throws an Error unless its operations are list, cancel and quota.
 */
export function readReference(text: string) {
  const document = readDocument(parse(text, undefined, parseNumberAndBigInt));
  const { info, servers, components } = document;
  const responses = document.operations.flatMap((operation) => Object.entries(operation.responses));
  const headers = Object.entries(components.headers).map(([name, header]) => {
    const statuses = responses.flatMap(([status, own]) => (name in own.headers ? [status] : []));
    return {
      name,
      ...header,
      /** True if the OpenAPI document lists the header for every response. */
      isCommon: statuses.length === responses.length,
      statuses: [...new Set(statuses)].toSorted(),
    };
  });
  const answerOf = ([status, { description, headers: own, content }]: [
    string,
    DocumentedAnswer,
  ]) => ({
    status: Number(status),
    reason: STATUS_CODES[status] ?? "",
    description,
    headers: headers
      .filter(({ name }) => name in own)
      .map((header) => ({ ...header, ...own[header.name] })),
    examples: examplesOf(content?.["application/json"]),
  });
  const { url } = servers[0];
  const server = URL.parse(url);
  const basePath = server?.pathname ?? url;
  const operations = document.operations.map((operation) => ({
    ...operation,
    path: `${basePath}${operation.path}`,
    answers: Object.entries(operation.responses).map(answerOf),
  }));
  const [list, cancel, quota] = operations;
  const names = operations.map((one) => `${one.method} ${one.operationId}`).join(", ");
  const expected = "GET listOrders, DELETE cancelOrder, GET getQuota";
  if (names !== expected || !list || !cancel || !quota) {
    throw new Error(`The page cannot show these operations: ${names}.`);
  }
  const answers = operations.flatMap((operation) => operation.answers);
  return {
    ...info,
    /** The address of the service without `/v1`. */
    origin: server?.origin ?? LOCAL_ORIGIN,
    /** The path with which every operation begins, such as `/v1`. */
    basePath,
    authentication: components.securitySchemes.apiKey.description,
    list,
    cancel,
    quota,
    orderFields: fieldsOf(components.schemas.Order),
    errorFields: fieldsOf(components.schemas.Error),
    headers,
    /** The first documented error response for each status. */
    errors: [...new Map(answers.toReversed().map((answer) => [answer.status, answer])).values()]
      .filter(({ status }) => status >= 400)
      .toSorted((one, other) => one.status - other.status),
  };
}

function fieldsOf({ properties = {}, required = [] }: Schema): Field[] {
  return Object.entries(properties as Readonly<Record<string, Schema>>).map(([name, schema]) => ({
    name,
    schema,
    required: required.includes(name),
    description: String(schema["description"] ?? ""),
  }));
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
