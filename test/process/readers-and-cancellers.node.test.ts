import { createHash } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { bundleService } from "../bench/bundle.ts";
import { Server } from "../bench/server.ts";
import { createStore, type Store } from "../bench/store.ts";

const ORDERS = 60_000;
const READERS = 4;
const CANCELLATIONS = 60;

let folder: string;
let store: Store;
let server: Server;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "store-orders-"));
  store = await createStore(folder, ORDERS);
  server = await Server.start(await bundleService(folder), {
    store: store.folder,
    hasObjects: true,
  });
}, 300_000);
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

function request(path: string, init: RequestInit = {}): Promise<Response> {
  return fetch(`${server.url}/v1/store/orders${path}`, {
    ...init,
    headers: { Authorization: `Bearer ${store.key}` },
  });
}

function idsIn(list: string): string[] {
  return [...list.matchAll(/"id":(?<id>-?\d+)/g)].map((match) => match.groups?.["id"] ?? "");
}

it("lists the store at one moment, while orders are cancelled one after another", async () => {
  const all = idsIn(await (await request("")).text());
  expect(all).toHaveLength(ORDERS);
  // From both ends of the list in turn, so that a list of two moments would show.
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
      if (text === null || !text.endsWith("]")) continue; // It broke off, which is honest.
      whole += 1;
      const listed = new Set(idsIn(text));
      const gone = cancelled.filter((id) => !listed.has(id));
      // Orders are cancelled in this order, so at one moment the first few of them are gone.
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
