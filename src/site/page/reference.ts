import { STATUS_CODES } from "node:http";
import { parse, stringify } from "lossless-json";

/** The facts that the reference page shows. All times are in milliseconds. */
export interface PageFacts {
  /** The OpenAPI document as JSON. Fields, headers, statuses and examples come only from it. */
  readonly document: string;
  /** True if lists come from the nearest replica, so they can be out of date (var `LIST_READS`). */
  readonly hasNearReads: boolean;
  /** The limits of each plan that has fixed limits, by the plan's name. */
  readonly plans: Readonly<Record<string, { readonly perMinute: number; readonly perDay: number }>>;
  /** The default configuration of bans. */
  readonly bans: {
    readonly graceMs: number;
    readonly strikeWindowMs: number;
    readonly minStrikes: number;
    readonly maxStrikes: number;
    readonly firstBanMs: number;
    readonly longestBanMs: number;
  };
  /** The SVG of the picture of limits, in which `{graceSeconds}` and other names are replaced. */
  readonly limitsPicture: string;
  /** A warning, in Markdown, that `JSON.parse` rounds large integers. */
  readonly roundingWarning: string;
  /** Code that reads a list without rounding integers, with a note in Markdown. */
  readonly exactReaders: readonly ExactReader[];
  /** The code blocks of a generated client: a command to run and the files to write. */
  readonly generatedClient: readonly { readonly fence: string; readonly code: string }[];
}

export interface ExactReader {
  readonly language: string;
  /** The name of the language after a Markdown fence, such as `js`. */
  readonly fence: string;
  readonly note: string;
  readonly lines: string;
}

/** The content of the OpenAPI document that the page shows. */
export interface Reference {
  readonly title: string;
  readonly version: string;
  readonly summary: string;
  /** The address of the service without `/v1`; of `npm start` if the document does not name it. */
  readonly origin: string;
  /** The path with which every operation begins, such as `/v1`. */
  readonly basePath: string;
  readonly authentication: string;
  /** The operator's email address or URL. */
  readonly contact?: { readonly email?: string; readonly url?: string };
  readonly operations: readonly Operation[];
  readonly orderFields: readonly Field[];
  readonly errorFields: readonly Field[];
  readonly headers: readonly Header[];
  /** The error responses, the first one for each status. */
  readonly errors: readonly Answer[];
}

export interface Operation {
  readonly id: string;
  readonly method: string;
  readonly path: string;
  readonly summary: string;
  readonly description: string;
  readonly parameters: readonly Field[];
  readonly answers: readonly Answer[];
}

/** A parameter of a request, or a field of a response body. */
export interface Field {
  readonly name: string;
  /** The place of a parameter, `path` or `header`. */
  readonly place?: string;
  readonly type: string;
  readonly required: boolean;
  readonly description: string;
  readonly example?: string;
}

export interface Header {
  readonly name: string;
  readonly description: string;
  /** True if every response for which the OpenAPI document lists the header has it. */
  readonly required: boolean;
  readonly example: string;
  /** True if the OpenAPI document lists the header for every response. */
  readonly isCommon: boolean;
  /** The statuses for which the OpenAPI document lists the header. */
  readonly statuses: readonly string[];
}

export interface Answer {
  readonly status: number;
  /** The reason phrase of the status. */
  readonly reason: string;
  readonly description: string;
  readonly headers: readonly Header[];
  /** One example, or one for each error code. */
  readonly examples: readonly Example[];
}

export interface Example {
  /** The `code` and the `message` in the body of an error. */
  readonly code?: string;
  readonly message?: string;
  /** The body as JSON; `null` if the response has no body. */
  readonly body: string | null;
}

/** The parts of the OpenAPI document that the page reads, with all `$ref` replaced. */
interface Document {
  readonly info: Pick<Reference, "title" | "version" | "summary" | "contact">;
  readonly servers: readonly [{ readonly url: string }];
  readonly paths: Readonly<Record<string, Methods & { readonly parameters?: Parameter[] }>>;
  readonly components: {
    readonly securitySchemes: { readonly apiKey: { readonly description: string } };
    readonly headers: Readonly<Record<string, Described>>;
    readonly schemas: Readonly<Record<"Order" | "Error", Schema>>;
  };
}

type Methods = Readonly<Record<string, OperationObject>>;

interface OperationObject {
  readonly operationId: string;
  readonly summary: string;
  readonly description: string;
  readonly parameters?: readonly Parameter[];
  readonly responses: Readonly<Record<string, ResponseObject>>;
}

interface Described {
  readonly description: string;
  readonly required?: boolean;
  readonly example?: string | number | bigint;
}

interface Parameter extends Described {
  readonly name: string;
  readonly in: string;
  readonly schema: Schema;
}

interface Schema {
  readonly type?: string | readonly string[];
  readonly format?: string;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
}

interface ResponseObject {
  readonly description: string;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly content?: { readonly "application/json": Content };
}

interface Content {
  readonly example?: unknown;
  readonly examples?: Readonly<Record<string, { readonly value: { readonly message: string } }>>;
}

/** The address of `npm start`. In browsers, a script replaces it by the origin of the page. */
export const LOCAL_ORIGIN = "http://localhost:8787";

/** Reads an OpenAPI document from JSON text. */
export function readReference(text: string): Reference {
  const parsed = parse(text, undefined, exactNumber);
  const { info, servers, paths, components } = withoutRefs(parsed, parsed) as Document;
  const methods = Object.entries(paths).flatMap(([path, { parameters = [], ...item }]) =>
    Object.entries(item as Methods).map(([method, operation]) => ({
      ...operation,
      method: method.toUpperCase(),
      path,
      parameters: [...parameters, ...(operation.parameters ?? [])],
    })),
  );
  const responses = methods.flatMap((method) => Object.entries(method.responses));
  const headers = Object.entries(components.headers).map(([name, header]): Header => {
    const on = responses.filter(([, response]) => name in response.headers);
    return {
      name,
      description: header.description,
      required: header.required ?? false,
      example: String(header.example),
      isCommon: on.length === responses.length,
      statuses: [...new Set(on.map(([status]) => status))].toSorted(),
    };
  });
  const operations = methods.map(({ operationId: id, parameters, responses: own, ...method }) => ({
    ...method,
    id,
    parameters: parameters.map(parameterField),
    answers: Object.entries(own).map(([status, response]) => answerOf(status, response, headers)),
  }));
  const errors = Map.groupBy(
    operations.flatMap(({ answers }) => answers).filter(({ status }) => status >= 400),
    ({ status }) => status,
  );
  const { url } = servers[0];
  const server = URL.parse(url);
  return {
    ...info,
    origin: server?.origin ?? LOCAL_ORIGIN,
    basePath: server?.pathname ?? url,
    authentication: components.securitySchemes.apiKey.description,
    operations,
    orderFields: fieldsOf(components.schemas.Order),
    errorFields: fieldsOf(components.schemas.Error),
    headers,
    errors: [...errors.values()]
      .flatMap(([first]) => first ?? [])
      .toSorted((one, other) => one.status - other.status),
  };
}

/** Returns a part of a document with the target of each `$ref` in its place. */
function withoutRefs(part: unknown, document: unknown): unknown {
  if (typeof part !== "object" || part === null) return part;
  if (Array.isArray(part)) return part.map((item) => withoutRefs(item, document));
  const { $ref, ...others } = part as { readonly $ref?: string };
  const names = $ref?.split("/").slice(1) ?? [];
  const target = names.reduce((found, name) => (found as Record<string, unknown>)[name], document);
  const members = Object.entries(
    $ref === undefined ? others : { ...(target as object), ...others },
  );
  return Object.fromEntries(members.map(([name, value]) => [name, withoutRefs(value, document)]));
}

function parameterField({ name, in: place, schema, example, ...rest }: Parameter): Field {
  const field = { name, place, type: typeOf(schema), required: false, ...rest };
  return example === undefined ? field : { ...field, example: String(example) };
}

function fieldsOf({ properties = {}, required = [] }: Schema): Field[] {
  return Object.entries(properties).map(([name, schema]) => ({
    name,
    type: typeOf(schema),
    required: required.includes(name),
    description: schema.description ?? "",
  }));
}

function typeOf({ type, format }: Schema): string {
  if (typeof type === "object") return `${type.join(" or ")} (${format})`;
  return format ?? type ?? "";
}

function answerOf(status: string, response: ResponseObject, headers: readonly Header[]): Answer {
  return {
    status: Number(status),
    reason: STATUS_CODES[status] ?? "",
    description: response.description,
    headers: headers.filter(({ name }) => name in response.headers),
    examples: examplesOf(response.content?.["application/json"]),
  };
}

function examplesOf(content: Content | undefined): Example[] {
  if (content?.examples === undefined) return [{ body: content ? json(content.example) : null }];
  return Object.entries(content.examples).map(([code, { value }]) => ({
    code,
    message: value.message,
    body: json(value),
  }));
}

/** Parses a number of JSON. Returns a bigint for an integer that a double would round. */
function exactNumber(text: string): number | bigint {
  const number = Number(text);
  return Number.isInteger(number) && !Number.isSafeInteger(number) ? BigInt(text) : number;
}

function json(value: unknown): string {
  return stringify(value, undefined, 2) ?? "";
}
