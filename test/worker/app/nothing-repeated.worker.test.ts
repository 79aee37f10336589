import { env } from "cloudflare:workers";
import { base32nopad } from "@scure/base";
import { expect, test } from "vitest";
import { generateSecret } from "../../../src/store/keys/new-secret.ts";
import { hashSecret, SECRET_PREFIX } from "../../../src/rules/keys/secret.ts";
import { createApiKey, createEnterpriseKey } from "../../support/api-key-fixture.ts";
import { faultyDatabases, type Outcome, PASS } from "../../support/faults.ts";
import { cutIntoSegments, placeManyOrders } from "../../support/order-fixture.ts";
import { LIST, send, startService } from "../../support/service.ts";
import { eventLines, requestLines } from "../../support/written-lines.ts";

async function everything(response: Response): Promise<string> {
  // The text of a list that is cut off cannot be read.
  const text = await response.text().catch(() => "");
  const log = [...requestLines(), ...eventLines()];
  return JSON.stringify([[...response.headers], text, log]).toLowerCase();
}

const hexOf = (text: string, before = "") =>
  [...text].map((c) => before + c.charCodeAt(0).toString(16)).join("");

test("no message, header or log line repeats a path, a query, a method or an origin", async () => {
  const { key } = await createApiKey();
  const text = "wrongplace";
  const headers = { Origin: `https://${text}.example`, "X-Version": text };
  const ends = [`/${text}?q=${text}`, `/${hexOf(text, "%")}?q=${text}`];
  const paths = [LIST, "/v1", ""].flatMap((start) => ends.map((end) => start + end));
  for (const path of paths) {
    for (const method of ["DELETE", "PROPFIND"]) {
      for (const credentials of [{ key }, {}]) {
        const response = await send(path, { method, headers, ...credentials });
        expect(await everything(response)).not.toMatch(/wrongplace|propfind|%77/);
      }
    }
  }
});

test("an X-Request-Id is kept in the response and in the log if it is well formed, and replaced if it is not, or a key could be in it in any case or spelling", async () => {
  const { key } = await createEnterpriseKey(1_000, 1_000);
  const secret = generateSecret();
  const end = secret.slice(SECRET_PREFIX.length);
  const base32 = (text: string) => base32nopad.encode(new TextEncoder().encode(text));
  const base64 = (text: string) => btoa(text).replaceAll("+", "-").replaceAll("/", "_");
  const LONG = "x".repeat(90);
  const kept = ["a".repeat(255), "a-1_b=", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7"];
  for (const id of [
    ...kept,
    "a".repeat(256),
    "with space",
    "",
    `id-${secret}`,
    secret.toUpperCase(),
    `${LONG}-${secret.toUpperCase()}`,
    base64(LONG + secret),
    base32(LONG + secret),
    [...secret].join("-"),
    hexOf(secret).toUpperCase(),
    hexOf(secret.toUpperCase()),
    // At each offset in a group of three bytes, and at some in a group of characters.
    ...["", "1", "12"].map((bytes) => `xyz${base64(bytes + secret.toUpperCase())}`),
    `abc${base32(`x${secret}`).toLowerCase()}`,
    [...end].join("_"),
    `Authorization-Bearer-${end.toUpperCase()}`,
    `${end}-first`,
    `x${end}`,
  ]) {
    const response = await send(LIST, { key, headers: { "X-Request-Id": id } });
    const answered = response.headers.get("X-Request-Id");
    expect(requestLines().at(-1)?.requestId).toBe(answered);
    if (kept.includes(id)) expect(answered).toBe(id);
    else expect(answered, id).toMatch(/^[0-9a-f]{8}-[0-9a-f-]{27}$/);
    const isRepeated = id !== "" && (await everything(response)).includes(id.toLowerCase());
    expect(isRepeated, id).toBe(kept.includes(id));
  }
});

test.each([
  ["for a key", "KEYS", [], "GET", "internal_error"],
  ["for a list", "ORDERS", [], "GET", "internal_error"],
  ["for a list that has begun", "ORDERS", [PASS], "GET", "order_list_broken"],
  ["for a cancellation", "ORDERS", [], "DELETE", "internal_error"],
] as const)("a query %s that fails leaves no SQL, hash or bound value anywhere", async (...row) => {
  const [, name, before, method, event] = row;
  await placeManyOrders(40);
  await cutIntoSegments(1);
  const { key } = await createApiKey();
  const planted = `${hashSecret(key)}'c0ffee`;
  // The error of D1 contains a value that it cannot bind.
  const unbindable = () => env[name].prepare("SELECT ?").bind(Object(planted)).run();
  const wrongSql = () => env[name].prepare(`SELECT '${hashSecret(key)}' WRONG FROM x`).run();
  for (const query of [unbindable, wrongSql]) {
    const { bindings, script } = faultyDatabases(name);
    script.next(...before).always((async () => query()) as Outcome);
    const path = method === "GET" ? LIST : `${LIST}/4611686018427387904`;
    const response = await startService({}, bindings)(path, { key, method });
    const written = await everything(response);
    const requestId = response.headers.get("X-Request-Id");
    expect(eventLines().at(-1)).toMatchObject({ event, requestId });
    expect(written).not.toMatch(new RegExp(`${hashSecret(key)}|c0ffee|select `));
  }
});
