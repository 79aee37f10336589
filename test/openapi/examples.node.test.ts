import { afterAll, beforeAll, expect, test } from "vitest";
import { openApiDocument } from "../../src/openapi/document.ts";
import type { Server } from "../bench/server.ts";
import { StoreFolder } from "../operator/store-folder.ts";
import { createKeys, type NewKey } from "../process/create-keys.ts";
import { serveWorker } from "../process/worker-server.ts";

const document = JSON.parse(openApiDocument());
const { components } = document;

interface Example {
  readonly operation: string;
  readonly method: string;
  readonly path: string;
  readonly status: number;
  /** The code of an error; empty for a successful response. */
  readonly code: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: any;
}

const resolved = (value: any): any =>
  "$ref" in value
    ? value.$ref
        .split("/")
        .slice(1)
        .reduce((part: any, name: string) => part[name], document)
    : value;

const EXAMPLES = Object.entries<any>(document.paths)
  .flatMap(([path, { parameters: own, ...methods }]) =>
    Object.entries<any>(methods).flatMap(([method, { operationId, responses }]) =>
      Object.entries<any>(responses).flatMap(([status, response]): Example[] => {
        const { headers: names, content } = resolved(response);
        const { example, examples = { "": { value: example } } } =
          content?.["application/json"] ?? {};
        return Object.entries<any>(examples).map(([code, { value }]) => ({
          operation: operationId,
          method: method.toUpperCase(),
          path: `/v1${path.replace("{orderId}", own[0].example)}`,
          status: Number(status),
          code,
          headers: Object.fromEntries(
            Object.entries<any>(names).map(([name, header]) => [
              name,
              String(resolved(header).example),
            ]),
          ),
          body: value,
        }));
      }),
    ),
  )
  .filter(
    // Both operations refer to the same error responses, so each is provoked once.
    ({ body, status }, index, all) =>
      all.findIndex((one) => (one.body ?? one.status) === (body ?? status)) === index,
  );

const nameOf = ({ operation, status, code }: Example) => [operation, status, code].join(" ").trim();

/** The headers that depend on earlier requests of the key. Only the first example shows them. */
const QUOTA = /^(?:X-RateLimit-.*|RateLimit.*|Link)$/;

const FAILURES: Record<string, string> = {
  internal_error: "no such table: orders: SQLITE_ERROR",
  service_unavailable: "D1_ERROR: Network connection lost.",
};

const store = new StoreFolder();
let server: Server;
let keys: Record<string, NewKey>;

beforeAll(async () => {
  keys = await createKeys(
    store,
    Object.fromEntries(EXAMPLES.map((example) => [nameOf(example), "free" as const])),
  );
  await store.ordersJson(["import", "-"], JSON.stringify(EXAMPLES[0]?.body));
  server = await serveWorker("test/generated-clients/failing-service.ts", store.path, {
    // Counts every refusal towards a ban, even in the ten seconds after the first refusal.
    BAN_GRACE_SECONDS: "0",
    V1_DEPRECATED_AT: new Date(1_000 * components.headers.Deprecation.example.slice(1)).toJSON(),
    V1_SUNSET_AT: new Date(components.headers.Sunset.example).toJSON(),
  });
});

afterAll(async () => {
  await server[Symbol.asyncDispose]();
  store.remove();
});

/** Sends the request of an example. */
function send(example: Example, changes: Record<string, string> = {}): Promise<Response> {
  const { method = example.method, path = example.path, ...headers } = changes;
  return fetch(`${server.url}${path}`, {
    method,
    headers: {
      Authorization: `Bearer ${keys[nameOf(example)]?.key}`,
      "X-Request-Id": components.headers["X-Request-Id"].example,
      ...headers,
    },
  });
}

/** Makes the service answer as in an example. Takes ids, paths and methods from the example. */
async function provoke(example: Example): Promise<Response> {
  const { path, status, code, body } = example;
  const found = (pattern: RegExp) => pattern.exec(body.message)?.[0] ?? "";
  const ofOrder = () => ({ path: path.replace(/\d+$/, found(/\d+/)) });
  switch (code || status) {
    case 200:
    case 204:
      return send(example);
    case 304:
      return send(example, { "If-None-Match": "*" });
    case "unauthorized":
      return send(example, { Authorization: "" });
    case "order_not_found":
      return send(example, ofOrder());
    case "not_found":
      return send(example, { path: found(/(?<=").*(?=")/) });
    case "method_not_allowed":
      return send(example, { method: found(/^\w+/) });
    case "order_already_shipped":
      await store.ordersJson(["import", "-"], `{"id":${found(/\d+/)},"status":"shipped"}`);
      return send(example, ofOrder());
    case "rate_limit_exceeded":
    case "api_key_banned":
      for (let sent = 0; sent < 200; sent++) {
        const response = await send(example);
        if ((await response.clone().text()).includes(code)) return response;
      }
      throw new Error(`The service never answers ${code}.`);
    case "internal_error":
    case "service_unavailable":
      await fetch(`${server.url}/fail?message=${encodeURIComponent(FAILURES[code] ?? "")}`);
      try {
        return await send(example);
      } finally {
        await fetch(`${server.url}/fail`);
      }
    default:
      throw new Error(`No test provokes ${nameOf(example)}.`);
  }
}

/** Replaces what differs between two equal answers: the list's version and the time. */
function comparable(headers: Example["headers"], body: any) {
  const wait = / (?<seconds>\d+) seconds?\b/.exec(body?.message ?? "");
  return {
    headers: Object.entries(headers).map(([name, value]) => {
      if (name === "ETag" || name === "X-RateLimit-Reset") return [name, value.replace(/\w/g, "0")];
      return [name, value === wait?.groups?.["seconds"] ? "wait" : value];
    }),
    body: wait === null ? body : { ...body, message: body.message.replace(wait[0], " wait") },
  };
}

test.each(EXAMPLES.map((example, index) => ({ name: nameOf(example), example, index })))(
  "the example of $name is what the service answers",
  async ({ example, index }) => {
    const response = await provoke(example);
    const text = await response.text();
    const shown = Object.entries(example.headers).filter(
      ([name]) => index === 0 || !QUOTA.test(name),
    );
    const sent = shown.map(([name]) => [name, response.headers.get(name) ?? ""]);
    expect(response.status).toBe(example.status);
    expect(
      comparable(Object.fromEntries(sent), text === "" ? undefined : JSON.parse(text)),
    ).toStrictEqual(comparable(Object.fromEntries(shown), example.body));
  },
);
