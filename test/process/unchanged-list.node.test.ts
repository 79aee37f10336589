import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import type { Server } from "../bench/server.ts";
import { LIST_SIZES } from "../../src/worker/orders/list-sizes.ts";
import { StoreFolder } from "../operator/store-folder.ts";
import { AMPLE, createKeys } from "./create-keys.ts";
import { orderLines } from "./order-lines.ts";
import { serveWorker } from "./worker-server.ts";
import type { Held } from "./workers/held.ts";

/** As many clients as an isolate runs queries for the list at the same time. */
const READERS = LIST_SIZES.concurrency;
const CLIENTS = 40;

const store = new StoreFolder();
let key: string;
let server: Server;
let entityTag: string;

beforeAll(async () => {
  const { client } = await createKeys(store, { client: AMPLE });
  key = client.key;
  await store.ordersJson(["import", "-"], orderLines(1, 10));
  server = await serveWorker("test/process/workers/held.ts", store.path, {
    DATABASE_TIMEOUT_MS: "30000",
  });
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  store.remove();
});
beforeEach(async () => {
  ({ entityTag } = await ask());
});

interface Answer {
  readonly status: number;
  readonly entityTag: string;
}

async function ask(headers: Record<string, string> = {}): Promise<Answer> {
  const response = await fetch(`${server.url}/v1/store/orders`, {
    headers: { Authorization: `Bearer ${key}`, ...headers },
  });
  await response.arrayBuffer();
  return { status: response.status, entityTag: response.headers.get("ETag") ?? "" };
}

/** Sends conditional requests for the list from several clients at the same time. */
function askAtOnce(clients: number, headers: Record<string, string> = {}): Promise<Answer[]> {
  const conditional = { "If-None-Match": entityTag, ...headers };
  return Promise.all(Array.from({ length: clients }, () => ask(conditional)));
}

async function step(name: "hold" | "leave" | "go-on" | "look"): Promise<Held> {
  return (await fetch(`${server.url}/${name}`)).json() as Promise<Held>;
}

/** Waits until `requests` API requests have arrived and `queries` database queries are waiting. */
function received(requests: number, queries: number): Promise<void> {
  const look = async () => {
    const held = await step("look");
    expect(held.requests).toBeGreaterThanOrEqual(requests);
    expect(held.queries).toBeGreaterThanOrEqual(queries);
  };
  return vi.waitFor(look, { timeout: 20_000, interval: 10 });
}

test("simultaneous clients all get 304 for an unchanged list, and 200 after a change", async () => {
  for (let round = 0; round < 2; round += 1) {
    await step("hold");
    const unchanged = askAtOnce(CLIENTS);
    await received(CLIENTS, 1);
    await step("go-on");
    expect(await unchanged).toEqual(Array(CLIENTS).fill({ status: 304, entityTag }));

    await server.changeOrderList();
    await step("hold");
    const changed = askAtOnce(CLIENTS);
    await received(CLIENTS, 1);
    await step("go-on");
    const answers = await changed;
    expect(answers[0]?.entityTag).not.toBe(entityTag);
    entityTag = answers[0]?.entityTag ?? "";
    expect(answers).toEqual(Array(CLIENTS).fill({ status: 200, entityTag }));
  }
});

test("clients get 304 although the clients whose queries they wait for disconnect", async () => {
  await step("hold");
  const leavers = askAtOnce(READERS, { Leaves: "yes" });
  await received(READERS, READERS);
  const clients = askAtOnce(CLIENTS);
  await received(READERS + CLIENTS, READERS);
  await step("leave");
  expect((await leavers).map(({ status }) => status)).toEqual(Array(READERS).fill(499));
  await step("go-on");
  expect(await clients).toEqual(Array(CLIENTS).fill({ status: 304, entityTag }));
});

test("clients get 304 although other waiting clients disconnect before their turn", async () => {
  await step("hold");
  const readers = askAtOnce(READERS);
  await received(READERS, READERS);
  const leavers = askAtOnce(READERS, { Leaves: "yes" });
  await received(2 * READERS, READERS);
  const clients = askAtOnce(CLIENTS);
  await received(2 * READERS + CLIENTS, READERS);
  await step("leave");
  expect((await leavers).map(({ status }) => status)).toEqual(Array(READERS).fill(499));
  await step("go-on");
  expect(await clients).toEqual(Array(CLIENTS).fill({ status: 304, entityTag }));
  expect(await readers).toEqual(Array(READERS).fill({ status: 304, entityTag }));
});
