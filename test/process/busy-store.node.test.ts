import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { setImmediate as pause } from "node:timers/promises";
import { beforeAll, expect, it } from "vitest";
import type { Server } from "../support/server.ts";
import { AMPLE, createKeys } from "./create-keys.ts";
import { Load } from "./load.ts";
import { orderLines } from "./order-lines.ts";
import { ServedStore, SERVICE } from "./worker-server.ts";

const FIRST_ID = 10_000;
const ORDERS = 5_000;
const FIRST_IMPORTED_ID = 1_000_000;
const IMPORTED = 20_000;
const CLIENTS = 4;
const DROPS = 150;
const DROPPED_AT_ONCE = 10;
const PART = Buffer.alloc(64 * 1024, " ");

const store = new ServedStore();
let server: Server;
let key: string;
/** The key of the clients that disconnect. A key has only a part of the places of long lists. */
let leaving: string;

beforeAll(async () => {
  ({ load: key, leaving } = await createKeys(store.path, { load: AMPLE, leaving: AMPLE }));
  await store.ordersJson(["import", "-"], orderLines(FIRST_ID, ORDERS));
  server = await store.serve(SERVICE);
});

function request(path: string, secret: string, init: RequestInit = {}): Promise<Response> {
  const headers = { Authorization: `Bearer ${secret}` };
  return fetch(`${server.url}/v1/store/orders${path}`, { ...init, headers });
}

const list = (secret = key) => request("", secret);
const cancel = (id: number | string) => request(`/${id}`, key, { method: "DELETE" });

it("loses no request or order while commands import, export and create keys", async () => {
  const cancelled = new Set<number>();
  const load = new Load(CLIENTS, async (turn) => {
    if (turn % 8 === 0) return list();
    const id = FIRST_ID + turn;
    const response = await cancel(id);
    if (response.status === 204) cancelled.add(id);
    return response;
  });

  const [imported, created] = await Promise.all([
    store.ordersJson(["import", "-"], orderLines(FIRST_IMPORTED_ID, IMPORTED)),
    store.keysJson("create", "--plan", "free", "--name", "Meanwhile"),
  ]);
  const exportFile = join(store.path, "orders.ndjson");
  do {
    await store.ordersJson(["export", exportFile]);
  } while (load.count(200) <= 5 && load.failures.length === 0);
  await load.stop();

  expect(imported).toEqual({ imported: IMPORTED });
  expect((await list(created.key)).status).toBe(200);
  expect(load.failures).toEqual([]);
  const { 200: lists, 204: cancellations, 404: missing = 0, ...others } = load.statuses;
  expect({ missing, ...others }).toEqual({ missing });
  expect(lists).toBeGreaterThan(5);
  expect(cancellations).toBe(cancelled.size);
  expect(cancelled.size).toBeGreaterThan(10);
  expect(readFileSync(exportFile, "utf8")).toContain(orderLines(FIRST_IMPORTED_ID, IMPORTED));

  const left: { id: number }[] = JSON.parse(await (await list(created.key)).text());
  const listed = new Set(left.map(({ id }) => id));
  const ids = Array.from({ length: ORDERS }, (_, index) => FIRST_ID + index);
  expect(ids.filter((id) => !listed.has(id))).toEqual(
    [...cancelled].toSorted((one, other) => one - other),
  );
});

async function send(requestLine: string, ...headers: readonly string[]): Promise<Socket> {
  const socket = connect(Number(new URL(server.url).port), "127.0.0.1");
  // Ignores the error if the service closes the connection before the client does.
  socket.on("error", () => {});
  await once(socket, "connect");
  const head = [`${requestLine} HTTP/1.1`, "Host: localhost", ...headers];
  socket.write(`${head.join("\r\n")}\r\n\r\n`);
  return socket;
}

/** Announces a request body of 10 MB, sends a part of it or nothing, and disconnects. */
async function dropUpload(index: number): Promise<void> {
  const [method, path] = index % 2 === 0 ? ["POST", "orders"] : ["DELETE", "orders/none"];
  // Every third upload has no key and is refused before its body is read.
  const credentials = index % 3 === 0 ? [] : [`Authorization: Bearer ${key}`];
  const address = `CF-Connecting-IP: 192.0.2.${index % 200}`;
  const length = `Content-Length: ${10 * 1024 * 1024}`;
  const socket = await send(`${method} /v1/store/${path}`, ...credentials, address, length);
  for (let parts = 0; parts < index % 5; parts += 1) {
    socket.write(PART);
    await pause();
  }
  socket.destroy();
}

/** Requests the list and disconnects before or during the response. */
async function dropDownload(index: number): Promise<void> {
  const socket = await send("GET /v1/store/orders", `Authorization: Bearer ${leaving}`);
  if (index % 3 > 0) await Promise.race([once(socket, "data"), once(socket, "close")]);
  if (index % 3 > 1) socket.resetAndDestroy();
  else socket.destroy();
}

it("is not harmed by clients that disconnect in the middle of uploads and downloads", async () => {
  const before = await (await list()).text();
  expect(before.length).toBeGreaterThan(1_000_000);
  const load = new Load(CLIENTS, (index) => (index % 2 === 0 ? list() : cancel("none")));
  const dropping = [dropUpload, dropDownload].flatMap((drop) => {
    let next = 0;
    return Array.from({ length: DROPPED_AT_ONCE }, async () => {
      while (next < DROPS) await drop(next++);
    });
  });
  await Promise.all(dropping);
  await load.stop();
  expect(load.failures).toEqual([]);
  expect(Object.keys(load.statuses)).toEqual(["200", "404"]);
  expect((await (await list()).text()) === before).toBe(true);
});
