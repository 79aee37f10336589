import { beforeAll, beforeEach, expect, test, vi } from "vitest";
import type { Server } from "../support/server.ts";
import { LIST_SIZES } from "../../src/worker/orders/list-stream.ts";
import { AMPLE, createKeys } from "./create-keys.ts";
import { orderLines } from "./order-lines.ts";
import { ServedStore } from "./worker-server.ts";
import type { Held } from "./workers/held.ts";

/** The number of readers, equal to an isolate's maximum of concurrent list queries. */
const READERS = LIST_SIZES.concurrency;
const CLIENTS = 40;

const store = new ServedStore();
let key: string;
let server: Server;
let entityTag: string;

beforeAll(async () => {
  ({ client: key } = await createKeys(store.path, { client: AMPLE }));
  await store.ordersJson(["import", "-"], orderLines(1, 10));
  server = await store.serve("test/process/workers/held.ts", { DATABASE_TIMEOUT_MS: "30000" });
});
beforeEach(async () => {
  ({ entityTag } = await ask());
});

async function ask(headers: Record<string, string> = {}) {
  const response = await fetch(`${server.url}/v1/store/orders`, {
    headers: { Authorization: `Bearer ${key}`, ...headers },
  });
  await response.arrayBuffer();
  return { status: response.status, entityTag: response.headers.get("ETag") ?? "" };
}

function askAtOnce(clients: number, headers: Record<string, string> = {}) {
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

test.each([
  ["whose queries they wait for", 0],
  ["that wait for their turn like them", READERS],
])("clients get 304 although clients %s disconnect", async (_, readers) => {
  await step("hold");
  const reading = askAtOnce(readers);
  await received(readers, readers);
  const leaving = askAtOnce(READERS, { Leaves: "yes" });
  await received(readers + READERS, READERS);
  const clients = askAtOnce(CLIENTS);
  await received(readers + READERS + CLIENTS, READERS);
  await step("leave");
  expect((await leaving).map(({ status }) => status)).toEqual(Array(READERS).fill(499));
  await step("go-on");
  const unchanged = Array(CLIENTS + readers).fill({ status: 304, entityTag });
  expect([...(await clients), ...(await reading)]).toEqual(unchanged);
});
