import { afterAll, beforeAll, expect, test, vi } from "vitest";
import type { Server } from "../bench/server.ts";
import { StoreFolder } from "../operator/store-folder.ts";
import { AMPLE, createKeys } from "./create-keys.ts";
import { orderLines } from "./order-lines.ts";
import { serveWorker, SERVICE } from "./worker-server.ts";

const ORDERS = 110_000;
const READERS = 2;
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

test("every list is complete and of one moment while orders are cancelled, however slowly it is read", async () => {
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
  /** Reads a list, and expects it to be the store at one moment while it was read. */
  const read = async (textOf: (response: Response) => Promise<string>) => {
    while (answered < CANCELLATIONS) {
      const before = answered;
      const response = await request("");
      const text = await textOf(response);
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
  /** Reads half a megabyte after each cancellation. */
  const readSlowly = async (response: Response) => {
    let text = "";
    let allowed = 500_000;
    const decoder = new TextDecoder();
    for await (const piece of response.body!) {
      text += decoder.decode(piece, { stream: true });
      if (text.length < allowed) continue;
      const seen = answered;
      await vi.waitUntil(() => answered > seen || answered === CANCELLATIONS, { interval: 2 });
      allowed = text.length + 500_000;
    }
    return text;
  };
  await Promise.all([
    cancel(),
    read(readSlowly),
    ...Array.from({ length: READERS }, () => read((response) => response.text())),
  ]);
  expect(whole).toBeGreaterThan(READERS);
  const last = await (await request("")).text();
  expect(last === listWithout(CANCELLATIONS)).toBe(true);
}, 120_000);
