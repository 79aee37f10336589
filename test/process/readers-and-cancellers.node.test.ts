import { createHash } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Server } from "../bench/server.ts";
import { StoreFolder } from "../operator/store-folder.ts";
import { AMPLE, createKeys } from "./create-keys.ts";
import { orderLines } from "./order-lines.ts";
import { serveWorker, SERVICE } from "./worker-server.ts";

const ORDERS = 60_000;
const READERS = 4;
const CANCELLATIONS = 60;

const store = new StoreFolder();
let key: string;
let server: Server;

beforeAll(async () => {
  const { client } = await createKeys(store, { client: AMPLE });
  key = client.key;
  await store.ordersJson(["import", "-"], orderLines(1, ORDERS));
  server = await serveWorker(SERVICE, store.path);
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  store.remove();
});

function request(path: string, init: RequestInit = {}): Promise<Response> {
  return fetch(`${server.url}/v1/store/orders${path}`, {
    ...init,
    headers: { Authorization: `Bearer ${key}` },
  });
}

function idsIn(list: string): string[] {
  return [...list.matchAll(/"id":(?<id>-?\d+)/g)].map((match) => match.groups?.["id"] ?? "");
}

test("every complete list is a consistent snapshot while orders are cancelled", async () => {
  const all = idsIn(await (await request("")).text());
  expect(all).toHaveLength(ORDERS);
  // Cancels orders at both ends of the list in turn, so that the ids reveal a list that mixes two
  // versions.
  const cancelled = Array.from({ length: CANCELLATIONS }, (_, n) =>
    n % 2 === 0 ? all[n * 50 + 1]! : all[ORDERS - n * 50 - 2]!,
  );
  let begun = 0;
  let answered = 0;
  const bodies = new Map<string, string>();
  let whole = 0;

  const cancel = async () => {
    for (const id of cancelled) {
      begun += 1;
      expect((await request(`/${id}`, { method: "DELETE" })).status).toBe(204);
      answered += 1;
    }
  };
  const read = async () => {
    while (answered < CANCELLATIONS) {
      const before = answered;
      const response = await request("");
      const text = await response.text().catch(() => null);
      // A list may be incomplete, but then it never ends with a bracket.
      if (text === null || !text.endsWith("]")) continue;
      whole += 1;
      const listed = new Set(idsIn(text));
      const gone = cancelled.filter((id) => !listed.has(id));
      // Orders are cancelled in the sequence of `cancelled`, so a consistent list lacks only the
      // first ids of `cancelled`.
      expect(gone).toStrictEqual(cancelled.slice(0, gone.length));
      expect(listed.size).toBe(ORDERS - gone.length);
      expect(gone.length).toBeGreaterThanOrEqual(before);
      expect(gone.length).toBeLessThanOrEqual(begun);
      const tag = response.headers.get("ETag") ?? "";
      const hash = createHash("sha256").update(text).digest("hex");
      expect(bodies.get(tag) ?? hash).toBe(hash);
      bodies.set(tag, hash);
    }
  };
  await Promise.all([cancel(), ...Array.from({ length: READERS }, read)]);
  expect(whole).toBeGreaterThanOrEqual(READERS);
  expect(idsIn(await (await request("")).text())).toHaveLength(ORDERS - CANCELLATIONS);
}, 120_000);
