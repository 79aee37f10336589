import { beforeEach, expect, test } from "vitest";
import { openApiDocument } from "../../src/openapi/document.ts";
import { readDocument } from "../../src/openapi/read-document.ts";
import { createApiKey } from "../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../support/clock.ts";
import { brokenDatabase, fail } from "../support/faults.ts";
import { placeOrder } from "../support/order-fixture.ts";
import { type RequestOptions, startService } from "../support/service.ts";

const { operations, components } = readDocument(JSON.parse(openApiDocument()));
const exampleOf = (header: string) => String(components.headers[header]?.example);

const EXAMPLES = operations
  .flatMap(({ method, path, parameters, responses }) =>
    Object.entries(responses).flatMap(([status, { headers, content }]) => {
      const { example, examples = { "": { value: example } } } =
        content?.["application/json"] ?? {};
      return Object.entries(examples).map(([code, { value }]) => ({
        name: `${method} ${status} ${code}`.trim(),
        method,
        path: `/v1${path.replace("{orderId}", String(parameters[0]?.example))}`,
        status: Number(status),
        /** The code of an error; empty for a successful response. */
        code,
        headers: Object.entries(headers).map(([name, header]) => [name, String(header.example)]),
        body: value as any,
      }));
    }),
  )
  // Both operations have the same error responses, so each response is provoked only once.
  .filter(
    ({ status, body }, index, all) =>
      all.findIndex(
        (one) => JSON.stringify([one.status, one.body]) === JSON.stringify([status, body]),
      ) === index,
  );

type Example = (typeof EXAMPLES)[number];

/** Only the first example checks these headers, because their values fit no other example. */
const QUOTA = /^(?:X-RateLimit-.*|RateLimit.*|Link)$/;

const VARS = {
  V1_DEPRECATED_AT: new Date(1_000 * Number(exampleOf("Deprecation").slice(1))).toJSON(),
  V1_SUNSET_AT: new Date(exampleOf("Sunset")).toJSON(),
};

/** What the database says in place of an answer, by the code of the error that follows. */
const FAULTS: Readonly<Record<string, string>> = {
  internal_error: "no such table: orders: SQLITE_ERROR",
  service_unavailable: "D1_ERROR: Network connection lost.",
};

beforeEach(async () => {
  stopClock();
  for (const { id, petId, quantity, ...others } of EXAMPLES[0]?.body ?? []) {
    const integers = petId && { petId: BigInt(petId), quantity: BigInt(quantity) };
    await placeOrder(BigInt(id), { ...others, ...integers });
  }
});

/** Makes the service answer as in an example. Takes ids, paths and methods from the example. */
async function provoke({ method, path, status, code, body }: Example): Promise<Response> {
  const credentials = code === "unauthorized" ? {} : await createApiKey();
  const fault = FAULTS[code];
  const service = startService(VARS, fault ? brokenDatabase("ORDERS", fail(fault)) : {});
  const id = /\d+/.exec(body?.message ?? "")?.[0] ?? "";
  if (code === "order_already_shipped") await placeOrder(BigInt(id), { status: "shipped" });
  const ofOrder = { path: path.replace(/\d+$/, id) };
  const changes: Readonly<Record<string, RequestOptions & { readonly path?: string }>> = {
    304: { headers: { "If-None-Match": "*" } },
    order_not_found: ofOrder,
    order_already_shipped: ofOrder,
    not_found: { path: "/v1/store/orders/42/" },
    method_not_allowed: { method: "PATCH" },
    precondition_failed: { headers: { "If-Match": '"another"' } },
  };
  const { path: own = path, headers, ...change } = changes[code || status] ?? {};
  const all = { "X-Request-Id": exampleOf("X-Request-Id"), ...headers };
  const send = () => service(own, { method, ...credentials, ...change, headers: all });
  if (status !== 429) return send();
  for (let sent = 0; sent < 200; sent++) {
    const response = await send();
    if ((await response.clone().text()).includes(code)) return response;
    // Refusals count towards a ban only after ten seconds, so the clock must advance.
    if (response.status === 429) advanceClock(250);
  }
  throw new Error(`The service never answers ${code}.`);
}

/** Replaces the values that differ from run to run: the list's version and the times. */
function comparable(headers: readonly (readonly string[])[], body: any) {
  const wait = / (?<seconds>\d+) seconds?\b/.exec(body?.message ?? "");
  return {
    headers: headers.map(([name = "", value = ""]) => {
      if (name === "ETag" || name === "X-RateLimit-Reset") return [name, value.replace(/\w/g, "0")];
      return [name, value === wait?.groups?.["seconds"] ? "wait" : value];
    }),
    body: wait === null ? body : { ...body, message: body.message.replace(wait[0], " wait") },
  };
}

test.each(EXAMPLES)("the example of $name is what the service answers", async (example) => {
  const response = await provoke(example);
  const text = await response.text();
  const isFirst = example === EXAMPLES[0];
  const shown = example.headers.filter(([name = ""]) => isFirst || !QUOTA.test(name));
  const sent = shown.map(([name = ""]) => [name, response.headers.get(name) ?? ""]);
  expect(response.status).toBe(example.status);
  expect(comparable(sent, text === "" ? undefined : JSON.parse(text))).toStrictEqual(
    comparable(shown, example.body),
  );
});
