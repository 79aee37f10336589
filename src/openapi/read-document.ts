import type { Schema } from "@cfworker/json-schema";

/** The parts of an OpenAPI document that the reference page and the checks of responses read. */
export interface ReadDocument {
  readonly info: {
    readonly title: string;
    readonly version: string;
    readonly summary: string;
    readonly contact?: { readonly email?: string; readonly url?: string };
  };
  readonly servers: readonly [{ readonly url: string }];
  readonly operations: readonly Operation[];
  readonly components: {
    readonly securitySchemes: { readonly apiKey: { readonly description: string } };
    readonly headers: Readonly<Record<string, Header>>;
    readonly responses: Readonly<Record<string, DocumentedAnswer>>;
    readonly schemas: Readonly<Record<"Order" | "Quota" | "Error", Schema>>;
  };
}

interface Operation {
  readonly operationId: string;
  /** The HTTP method in upper case. */
  readonly method: string;
  readonly path: string;
  readonly summary: string;
  readonly description: string;
  /** The parameters of the path and of the operation. */
  readonly parameters: readonly Field[];
  readonly responses: Readonly<Record<string, DocumentedAnswer>>;
}

interface Header {
  readonly description: string;
  readonly required?: boolean;
  readonly example?: string | number;
  readonly schema: Schema;
}

/** A parameter of a request, or a field of a body. */
export interface Field extends Header {
  readonly name: string;
  /** The place of a parameter, `path` or `header`; absent for a field of a body. */
  readonly in?: string;
}

export interface DocumentedAnswer {
  readonly description: string;
  readonly headers: Readonly<Record<string, Header>>;
  readonly content?: { readonly "application/json": Content };
}

export interface Content {
  readonly schema: Schema;
  readonly example?: unknown;
  readonly examples?: Readonly<Record<string, { readonly value: { readonly message: string } }>>;
}

type Methods = Readonly<Record<string, Operation>>;

/** Returns a parsed OpenAPI document with each `$ref` replaced by its target. */
export function readDocument(parsed: unknown): ReadDocument {
  const { paths, ...document } = withoutRefs(parsed, parsed) as ReadDocument & {
    readonly paths: Readonly<Record<string, Methods & { readonly parameters?: Field[] }>>;
  };
  const operations = Object.entries(paths).flatMap(([path, { parameters = [], ...methods }]) =>
    Object.entries(methods as Methods).map(([method, operation]) => ({
      ...operation,
      method: method.toUpperCase(),
      path,
      parameters: [...parameters, ...(operation.parameters ?? [])],
    })),
  );
  return { ...document, operations };
}

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
