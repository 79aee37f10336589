import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { setTimeout as wait } from "node:timers/promises";
import { beforeAll, describe, expect, it } from "vitest";
import { openLocalDatabase } from "../../src/operator/database/local.ts";
import { INT64_MIN } from "../../src/rules/int64.ts";
import { orderListLeases } from "../../src/schema/orders.ts";
import type { Server } from "../support/server.ts";
import { createKeys } from "./create-keys.ts";
import { CLOCKED_SERVICE, ServedStore } from "./worker-server.ts";

/** The list is longer than what the connection of a client that does not read buffers. */
const ORDERS = 110_000;
const STALL_MS = 1_500;
/** The server has room for one list of these. */
const SIZES = { heldOrders: 30_000, stallMs: STALL_MS, leaseMs: STALL_MS };

const store = new ServedStore();
let keys: Record<"hostile" | "other", string>;
let server: Server;
let whole: string;

beforeAll(async () => {
  keys = await createKeys(store.path, { hostile: "free", other: "business" });
  const fields = `"petId":${INT64_MIN},"quantity":${INT64_MIN},"shipDate":"2026-11-20T08:30:00.000Z"`;
  const orders = Array.from({ length: ORDERS }, (_, index) => `{"id":${index},${fields}}`);
  whole = `[${orders.join()}]`;
  await store.ordersJson(["import", "-"], `${orders.join("\n")}\n`);
  server = await store.serve(CLOCKED_SERVICE, { REQUEST_LOG: "all" });
});

/** Requests the list. The client takes nothing of the body until it is read. */
async function open(key: string, url = server.url): Promise<IncomingMessage> {
  const headers = { Authorization: `Bearer ${key}` };
  const request = get(`${url}/v1/store/orders`, { headers, agent: false });
  const [response] = (await once(request, "response")) as [IncomingMessage];
  return response.on("error", () => {});
}

/** Returns the rest of a body; `null` if the service cuts it off. */
const read = (response: IncomingMessage) => text(response).catch(() => null);

describe("No key can take the lists from another.", () => {
  it("answers another key's list while a key keeps 40 lists that it does not read", async () => {
    // After this, all orders are in memory: places that lists take to read ahead are soon free.
    expect((await read(await open(keys.other))) === whole).toBe(true);
    const unread = await Promise.all(Array.from({ length: 40 }, () => open(keys.hostile)));
    const statuses = Map.groupBy(unread, ({ statusCode }) => statusCode);
    expect([...statuses.keys()].toSorted()).toEqual([200, 503]);
    expect(statuses.get(200)!.length).toBeGreaterThan(10);
    expect(statuses.get(503)![0]!.headers["retry-after"]).toBe("5");

    const other = await open(keys.other);
    expect(other.statusCode).toBe(200);
    expect((await read(other)) === whole).toBe(true);
    for (const response of unread) response.destroy();
  });
});

describe("A reader that seems to take nothing is cut off only while another list needs its place.", () => {
  let small: Server;
  beforeAll(async () => {
    small = await store.serve(CLOCKED_SERVICE, { SIZES: JSON.stringify(SIZES) });
  });

  it("serves a slow reader to the end, much longer than the stall time, and renews its lease", async () => {
    const slow = await open(keys.other, small.url);
    slow.setEncoding("utf8");
    let received = "";
    for (const endMs = Date.now() + 2 * STALL_MS; Date.now() < endMs; await wait(20)) {
      received += String(slow.read(100) ?? "");
    }
    const orders = await openLocalDatabase(store.path, "orders");
    expect(await orders.orm.select().from(orderListLeases)).toHaveLength(1);
    await orders.close();
    received += await read(slow);
    expect(received === whole).toBe(true);
  });

  it("cuts it off without its bracket when its place is needed after the stall time", async () => {
    const stalled = await open(keys.hostile, small.url);
    const tooEarly = await open(keys.other, small.url);
    expect(tooEarly.statusCode).toBe(503);
    tooEarly.resume();
    await wait(STALL_MS + 500);
    const other = await open(keys.other, small.url);
    expect(other.statusCode).toBe(200);
    expect((await read(other)) === whole).toBe(true);
    let received = "";
    stalled.setEncoding("utf8").on("data", (part: string) => void (received += part));
    await new Promise((resolve) => void stalled.on("close", resolve));
    expect(stalled.complete).toBe(false);
    expect(whole.startsWith(received) && received.length < whole.length).toBe(true);
    const log = await (await fetch(`${small.url}/log`)).text();
    expect(log.match(/order_list_\w+/g)).toEqual(["order_list_stalled"]);
  });
});

/** Sends bytes, and returns everything that the service responds. */
async function send(...lines: readonly (string | Buffer)[]): Promise<string> {
  const socket = connect(Number(new URL(server.url).port), "127.0.0.1");
  const head = lines.flatMap((line) => [Buffer.from(line), Buffer.from("\r\n")]);
  socket.write(Buffer.concat([...head, Buffer.from("Host: a\r\nConnection: close\r\n\r\n")]));
  return text(socket);
}

const statusOf = (response: string) => Number(response.split(" ")[1]);

describe("No answer and no log line repeats text that a caller sent.", () => {
  it("repeats no key in a path, a query, a method or X-Request-Id", async () => {
    const { hostile: key } = keys;
    const percent = [...key].map((letter) => `%${letter.charCodeAt(0).toString(16)}`).join("");
    const requests = [key, percent, `with-${key}-in-it`].flatMap((secret) => [
      [`DELETE /v1/store/orders/${secret} HTTP/1.1`],
      [`GET /v1/${secret}?key=${secret} HTTP/1.1`],
      [`GET /${secret} HTTP/1.1`],
      [`${secret} /v1/store/orders HTTP/1.1`],
      ["GET /v1/none HTTP/1.1", `X-Request-Id: ${secret}`],
      ["GET /healthz HTTP/1.1", `X-Request-Id: ${secret}`],
    ]);
    for (const request of requests) {
      for (const credentials of [[], [`Authorization: Bearer ${keys.other}`]]) {
        const response = await send(...request, ...credentials);
        expect(response).toMatch(/^HTTP\/1.1 [245]\d\d /);
        expect(response).not.toContain(key);
        expect(response).not.toContain(percent);
      }
    }
    const log = await (await fetch(`${server.url}/log`)).text();
    expect(log).toContain('\\"route\\":\\"/v1/store/orders/{orderId}\\"');
    expect(log).not.toContain(key);
    expect(log).not.toContain(percent);
  });
});

describe("A request whose precondition is false is not performed.", () => {
  it("answers 412 and changes nothing; 404 comes first", async () => {
    const ask = (path: string, condition: string) =>
      send(`${path} HTTP/1.1`, `Authorization: Bearer ${keys.other}`, condition);
    const order = "DELETE /v1/store/orders/1";
    for (const response of [
      await ask(order, 'If-Match: "stale"'),
      await ask(order, "If-None-Match: *"),
      await ask("GET /v1/store/orders", 'If-Match: "stale"'),
    ]) {
      expect(statusOf(response)).toBe(412);
      expect(response).toContain('"code":"precondition_failed"');
      expect(response).toMatch(/^X-RateLimit-Remaining: \d+\r$/im);
    }
    expect(statusOf(await ask(order, "If-Match: *"))).toBe(204);
    expect(statusOf(await ask(order, 'If-Match: "stale"'))).toBe(404);
  });
});

describe("Around the token, spaces and tabs are cut off and nothing else.", () => {
  it.each([
    ["spaces", 404, " Bearer ", ""],
    ["tabs", 404, "\t bearer\t", "\t"],
    ["spaces and tabs", 404, " BEARER \t ", " \t "],
    ["a BOM before", 401, " Bearer \uFEFF", ""],
    ["a BOM before the scheme", 401, " \uFEFFBearer ", ""],
    ["a UTF-8 no-break space after", 401, " Bearer ", "\u00A0"],
    ["a Latin-1 no-break space after", 401, " Bearer ", "\u00A0", "latin1"],
    ["a Latin-1 no-break space before", 401, " Bearer \u00A0", "", "latin1"],
    ["a zero-width space before", 401, " Bearer \u200B", ""],
    ["an ideographic space after", 401, " Bearer ", "\u3000"],
    ["a vertical tab after", 401, " Bearer ", "\v"],
  ] as const)("%s: %i", async (_, status, before, after, encoding = "utf8" as never) => {
    const header = Buffer.from(`Authorization:${before}${keys.other}${after}`, encoding);
    const response = await send("GET /v1/none HTTP/1.1", header);
    expect(statusOf(response)).toBe(status);
    if (status === 404) return;
    expect(response).toMatch(
      /holds a character that no API key has|has another scheme than Bearer/,
    );
  });
});
