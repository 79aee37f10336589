import { env } from "cloudflare:workers";
import { base32nopad } from "@scure/base";
import { expect, test } from "vitest";
import { generateSecret } from "../../../src/operator/keys/key-changes.ts";
import { hashSecret, SECRET_PREFIX } from "../../../src/rules/keys/secret.ts";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { cutIntoSegments, placeManyOrders } from "../../support/order-fixture.ts";
import { faultyDatabases } from "../../support/faults.ts";
import { LIST, send, startService } from "../../support/service.ts";
import { eventLines, requestLines } from "../../support/written-lines.ts";

/** Returns everything that a response and the log of this test contain. */
async function everything(response: Response): Promise<string> {
  const log = [...requestLines(), ...eventLines()];
  return JSON.stringify([[...response.headers], await response.text(), log]).toLowerCase();
}

const percent = (text: string) => [...text].map((c) => `%${c.charCodeAt(0).toString(16)}`).join("");

test("no message, header or log line repeats a path, a query, a method or an origin", async () => {
  const { key } = await createApiKey();
  const text = "wrongplace";
  for (const path of [`${LIST}/${text}`, `/v1/${text}`, `/${text}`, `${LIST}/${percent(text)}`]) {
    for (const method of ["DELETE", "GET", "PROPFIND"]) {
      for (const credentials of [{ key }, {}]) {
        const headers = { Origin: `https://${text}.example`, "X-Version": text };
        const options = { method, headers, ...credentials };
        const repeated = await everything(await send(`${path}?q=${text}`, options));
        expect(repeated).not.toMatch(/wrongplace|propfind|%77/);
      }
    }
  }
});

const secret = generateSecret();
const base64 = (text: string) => btoa(text).replaceAll("+", "-").replaceAll("/", "_");
const hex = [...secret].map((c) => c.charCodeAt(0).toString(16)).join("");

test.each([
  secret,
  `id-${secret}`,
  secret.toUpperCase(),
  secret.replace("_", "-"),
  secret.replace("_", "=5F"),
  [...secret].join("-"),
  hex,
  hex.toUpperCase(),
  // At each offset in a group of four characters, and in a group of three bytes.
  ...["", "x", "xy", "xyz"].flatMap((before) =>
    ["", "1", "12"].flatMap((bytes) => [
      before + base64(bytes + secret),
      before + base64(bytes + secret.toUpperCase()),
    ]),
  ),
  base32nopad.encode(new TextEncoder().encode(secret)),
  `Authorization-Bearer-${secret.slice(SECRET_PREFIX.length)}`,
])("an X-Request-Id in which a key could be is replaced: %s", async (id) => {
  const response = await send(LIST, { headers: { "X-Request-Id": id } });
  expect(response.headers.get("X-Request-Id")).toMatch(/^[0-9a-f]{8}-[0-9a-f-]{27}$/);
  expect(await everything(response)).not.toContain(id.toLowerCase());
});

test("a wrong parameter, a failing statement and an unknown hash leave no SQL, parameter or hash anywhere", async () => {
  const { key } = await createApiKey();
  const unknown = generateSecret();
  const planted = (sql: string, ...values: unknown[]) => {
    const { bindings, script } = faultyDatabases("KEYS");
    script.always((() =>
      env.KEYS.prepare(sql)
        .bind(...values)
        .all()) as never);
    return startService({}, bindings);
  };
  for (const [service, sent, status] of [
    [planted("SELECT 1 FROM api_keys WHERE hash = ?", { [hashSecret(key)]: 1n }), key, 500],
    [planted("SELECT 1 FROM api_keys WHERE hash = ?", BigInt(`0x${hashSecret(key)}`)), key, 500],
    [planted("SELECT hash FROM api_keys WHERE wrong = ?", hashSecret(key)), key, 500],
    [send, unknown, 401],
  ] as const) {
    const response = await service(LIST, { key: sent });
    expect(response.status).toBe(status);
    const written = await everything(response);
    for (const text of [
      hashSecret(sent),
      String(BigInt(`0x${hashSecret(sent)}`)),
      sent,
      "select ",
    ]) {
      expect(written).not.toContain(text);
    }
  }
});

test.each([
  ["a list", 1, { method: "GET", path: LIST }, "internal_error"],
  ["a list that has begun", 2, { method: "GET", path: LIST }, "order_list_broken"],
  [
    "a cancellation",
    1,
    { method: "DELETE", path: `${LIST}/4611686018427387904` },
    "internal_error",
  ],
])(
  "a query for %s that fails leaves no SQL, id, tag or segment anywhere",
  async (_, failing, { method, path }, event) => {
    const { key } = await createApiKey();
    await placeManyOrders(40);
    await cutIntoSegments(2);
    const { results } = await env.ORDERS.prepare("SELECT version FROM order_segments").all();
    const versions = results.map(({ version }) => String(version));
    const tag = "c0ffee-tag";
    const texts = [...versions, tag, "4611686018427387904"];
    const isPlanted = (value: unknown) => texts.some((text) => String(value).includes(text));
    for (const brokenSql of ["", " WRONG"]) {
      let queries = 0;
      const prepare = (sql: string) => ({
        bind(...values: unknown[]) {
          queries += 1;
          if (queries !== failing) return env.ORDERS.prepare(sql).bind(...values);
          // The error of D1 contains the first object that it cannot bind.
          const spoil = (value: unknown) => (isPlanted(value) ? Object(value) : value);
          const wrong = brokenSql === "" ? values.map(spoil) : values;
          return env.ORDERS.prepare(sql + brokenSql).bind(...wrong);
        },
      });
      const get = (target: D1Database, name: string | symbol) =>
        name === "prepare" ? prepare : Reflect.get(target, name).bind(target);
      const service = startService({}, { ORDERS: new Proxy(env.ORDERS, { get }) });
      const headers = { "If-None-Match": `"${tag}"` };
      const response = await service(path, { key, method, headers });
      const written = await everything(response).catch(() => everything(new Response()));
      expect(written).toContain(event);
      for (const text of [...texts, "select "]) expect(written).not.toContain(text);
    }
  },
);
