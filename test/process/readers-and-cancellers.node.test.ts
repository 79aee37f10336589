import { afterAll, beforeAll, expect, test } from "vitest";
import type { Server } from "../bench/server.ts";
import { StoreFolder } from "../operator/store-folder.ts";
import { AMPLE, createKeys } from "./create-keys.ts";
import { orderLines } from "./order-lines.ts";
import { serveWorker, SERVICE } from "./worker-server.ts";

const ORDERS = 30_000;
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

test("every complete list is a consistent snapshot while orders are cancelled", async () => {
  const first = await (await request("")).text();
  const all = first.slice(1, -1).split(/(?<=\}),/);
  expect(all).toHaveLength(ORDERS);
  // Cancels orders at both ends of the list in turn, so that the ids reveal a list that mixes two
  // versions.
  const cancelled = Array.from({ length: CANCELLATIONS }, (_, n) =>
    n % 2 === 0 ? n * 50 + 1 : ORDERS - n * 50 - 2,
  );
  const listWithout = (gone: number) => {
    const missing = new Set(cancelled.slice(0, gone));
    return `[${all.filter((_, index) => !missing.has(index)).join()}]`;
  };
  /** The length of the list after each number of cancellations. */
  const lengths = [first.length];
  for (const index of cancelled) lengths.push(lengths.at(-1)! - all[index]!.length - 1);
  let begun = 0;
  let answered = 0;
  const goneByTag = new Map<string, number>();
  let whole = 0;

  const cancel = async () => {
    for (const index of cancelled) {
      begun += 1;
      const { id } = JSON.parse(all[index]!) as { id: number };
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
      // Orders are cancelled in the sequence of `cancelled`, so a consistent list lacks only the
      // first orders of `cancelled`.
      const gone = lengths.indexOf(text.length);
      expect(gone).toBeGreaterThanOrEqual(before);
      expect(gone).toBeLessThanOrEqual(begun);
      expect(text === listWithout(gone), `the list without ${gone} orders`).toBe(true);
      const tag = response.headers.get("ETag") ?? "";
      expect(goneByTag.get(tag) ?? gone).toBe(gone);
      goneByTag.set(tag, gone);
    }
  };
  await Promise.all([cancel(), ...Array.from({ length: READERS }, read)]);
  expect(whole).toBeGreaterThanOrEqual(READERS);
  const last = await (await request("")).text();
  expect(last === listWithout(CANCELLATIONS)).toBe(true);
}, 120_000);
