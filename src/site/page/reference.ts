import { STATUS_CODES } from "node:http";
import { parse, stringify } from "lossless-json";

/** The content of the OpenAPI document for the page, with all `$ref` resolved. */
export interface Reference {
  readonly title: string;
  readonly version: string;
  readonly summary: string;
  /**
   * The address of the service without `/v1`; `null` if the OpenAPI document does not contain it.
   */
  readonly origin: string | null;
  /** The path with which every operation begins, such as `/v1`. */
  readonly basePath: string;
  readonly authentication: string;
  /** The operator's email address or URL; empty if the operator has set neither. */
  readonly contact: Contact;
  readonly operations: readonly Operation[];
  readonly orderFields: readonly Field[];
  readonly errorFields: readonly Field[];
  readonly headers: readonly (Header & { readonly statuses: readonly number[] })[];
  /** The names of the headers that the OpenAPI document lists for every response. */
  readonly commonHeaders: ReadonlySet<string>;
  /** The error responses, the first one for each status. */
  readonly errors: readonly Answer[];
}

interface Contact {
  readonly email?: string;
  readonly url?: string;
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
  /** The place of a parameter, `path` or `header`; `null` for a field of a response body. */
  readonly place: string | null;
  readonly type: string;
  readonly required: boolean;
  readonly description: string;
  readonly example: string | null;
}

export interface Header {
  readonly name: string;
  readonly description: string;
  /**
   * True if the header is always present in the responses for which the OpenAPI document lists the
   * header.
   */
  readonly required: boolean;
  readonly example: string;
}

export interface Answer {
  readonly status: number;
  /** The reason phrase of the status. */
  readonly reason: string;
  readonly description: string;
  readonly headers: readonly Header[];
  readonly examples: readonly Example[];
}

export interface Example {
  /** The code of an error; `null` for a successful response. */
  readonly code: string | null;
  /** The message of an error; `null` for a successful response. */
  readonly message: string | null;
  /** The body as JSON; `null` if the response has no body. */
  readonly body: string | null;
}

interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly format?: string;
  readonly description?: string;
  readonly allOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
}

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required?: boolean;
  readonly description: string;
  readonly schema: Schema;
  readonly example?: string | number | bigint;
}

interface HeaderObject {
  readonly description: string;
  readonly required?: boolean;
  readonly example: string | number | bigint;
}

interface ResponseObject {
  readonly description: string;
  readonly headers: Readonly<Record<string, Ref | HeaderObject>>;
  readonly content?: Readonly<Record<string, Content>>;
}

interface Content {
  readonly example?: unknown;
  readonly examples?: Readonly<Record<string, { readonly value: { readonly message: string } }>>;
}

interface Ref {
  readonly $ref: string;
}

interface OperationObject {
  readonly operationId: string;
  readonly summary: string;
  readonly description: string;
  readonly parameters?: readonly (Ref | Parameter)[];
  readonly responses: Readonly<Record<string, Ref | ResponseObject>>;
}

interface PathItem {
  readonly parameters?: readonly (Ref | Parameter)[];
  readonly get?: OperationObject;
  readonly delete?: OperationObject;
}

interface Document {
  readonly info: {
    readonly title: string;
    readonly version: string;
    readonly summary: string;
    readonly contact?: Contact;
  };
  readonly servers: readonly [{ readonly url: string }];
  readonly paths: Readonly<Record<string, PathItem>>;
  readonly components: {
    readonly securitySchemes: { readonly apiKey: { readonly description: string } };
    readonly headers: Readonly<Record<string, HeaderObject>>;
    readonly schemas: Readonly<Record<string, Schema>>;
  };
}

const METHODS = ["get", "delete"] as const;

/**
 * Reads an OpenAPI document from JSON text.
 *
 * @throws {Error} if a path has a method that the page does not show.
 */
export function readReference(text: string): Reference {
  const document = parse(text, undefined, exactNumber) as Document;
  const { info, servers, paths, components } = document;
  const operations = Object.entries(paths).flatMap(([path, item]) =>
    operationsOf(document, path, item),
  );
  const answers = operations.flatMap((operation) => operation.answers);
  const isOn = (name: string, answer: Answer) => answer.headers.some((one) => one.name === name);
  const headers = Object.keys(components.headers).map((name) => ({
    ...headerOf(document, name, { $ref: `#/components/headers/${name}` }),
    statuses: [
      ...new Set(answers.filter((answer) => isOn(name, answer)).map(({ status }) => status)),
    ].toSorted((one, other) => one - other),
  }));
  const common = headers.filter(({ name }) => answers.every((answer) => isOn(name, answer)));
  const { url } = servers[0];
  const server = URL.canParse(url) ? new URL(url) : null;
  return {
    ...info,
    contact: info.contact ?? {},
    origin: server?.origin ?? null,
    basePath: server?.pathname ?? url,
    authentication: components.securitySchemes.apiKey.description,
    operations,
    orderFields: fieldsOf(document, "Order"),
    errorFields: fieldsOf(document, "Error"),
    headers,
    commonHeaders: new Set(common.map(({ name }) => name)),
    errors: [
      ...new Map(
        answers
          .filter(({ status }) => status >= 400)
          .toReversed()
          .map((answer) => [answer.status, answer]),
      ).values(),
    ].toSorted((one, other) => one.status - other.status),
  };
}

function operationsOf(document: Document, path: string, item: PathItem): Operation[] {
  const unknown = Object.keys(item).filter(
    (name) => name !== "parameters" && !METHODS.some((method) => method === name),
  );
  if (unknown.length > 0) throw new Error(`${path}: the page cannot show ${unknown.join(", ")}.`);
  return METHODS.flatMap((method) => {
    const operation = item[method];
    if (operation === undefined) return [];
    const { operationId, summary, description, parameters = [], responses } = operation;
    return [
      {
        id: operationId,
        method: method.toUpperCase(),
        path,
        summary,
        description,
        parameters: [...(item.parameters ?? []), ...parameters].map((one) =>
          parameterField(document, resolve<Parameter>(document, one)),
        ),
        answers: Object.entries(responses).map(([status, response]) =>
          answerOf(document, Number(status), resolve<ResponseObject>(document, response)),
        ),
      },
    ];
  });
}

function parameterField(document: Document, { name, in: place, ...rest }: Parameter): Field {
  const { required = false, description, schema, example } = rest;
  return {
    name,
    place,
    type: typeOf(document, schema),
    required,
    description,
    example: example === undefined ? null : String(example),
  };
}

function fieldsOf(document: Document, schemaName: string): Field[] {
  const { properties = {}, required = [] } = document.components.schemas[schemaName] ?? {};
  return Object.entries(properties).map(([name, schema]) => ({
    name,
    place: null,
    type: typeOf(document, schema),
    required: required.includes(name),
    description: schema.description ?? "",
    example: null,
  }));
}

function typeOf(document: Document, schema: Schema): string {
  const { type, format } = { ...schema, ...resolve<Schema>(document, schema) };
  if (typeof type !== "string" && type !== undefined) return `${type.join(" or ")} (${format})`;
  return format ?? type ?? "";
}

function answerOf(document: Document, status: number, response: ResponseObject): Answer {
  return {
    status,
    reason: STATUS_CODES[status] ?? "",
    description: response.description,
    headers: Object.entries(response.headers).map(([name, one]) => headerOf(document, name, one)),
    examples: examplesOf(response.content?.["application/json"]),
  };
}

function examplesOf(content: Content | undefined): Example[] {
  if (content?.examples === undefined) {
    return [{ code: null, message: null, body: content ? json(content.example) : null }];
  }
  return Object.entries(content.examples).map(([code, { value }]) => ({
    code,
    message: value.message,
    body: json(value),
  }));
}

function headerOf(document: Document, name: string, object: Ref | HeaderObject): Header {
  const { description, required = false, example } = resolve<HeaderObject>(document, object);
  return { name, description, required, example: String(example) };
}

function resolve<T>(document: Document, value: Ref | T | Schema): T {
  if (typeof value !== "object" || value === null || !("$ref" in value) || !value.$ref) {
    return value as T;
  }
  const names = value.$ref.split("/").slice(1);
  return names.reduce<unknown>(
    (part, name) => (part as Readonly<Record<string, unknown>>)[name],
    document,
  ) as T;
}

/** Parses a number of JSON. Returns a bigint for an integer that a double would round. */
function exactNumber(text: string): number | bigint {
  const number = Number(text);
  return Number.isInteger(number) && !Number.isSafeInteger(number) ? BigInt(text) : number;
}

function json(value: unknown): string {
  return stringify(value, undefined, 2) ?? "";
}
