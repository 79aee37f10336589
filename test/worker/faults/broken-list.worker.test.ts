import { env } from "cloudflare:workers";
import { beforeEach, expect, test, vi } from "vitest";
import { quotaOf } from "../../support/answer.ts";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { cutIntoSegments, placeManyOrders } from "../../support/order-fixture.ts";
import { type Send, startService } from "../../support/service.ts";
import { fail, HANG, type Outcome, PASS } from "./fault-script.ts";
import { type FaultyDatabases, faultyDatabases } from "./faulty-bindings.ts";
import { type LogLine, readLog } from "./log-lines.ts";

const LIST = "/v1/store/orders";
const LOST = fail("D1_ERROR: Network connection lost.");
/**
 * The number of orders, stored in 20 segments of two. For a list, the service reads the first
 * segment with the first query, and up to four segments with each further query.
 */
const COUNT = 40;

let line: FaultyDatabases;
let service: Send;
let log: () => LogLine[];
let keyId: string;
let key: string;

beforeEach(async () => {
  vi.restoreAllMocks();
  log = readLog();
  line = faultyDatabases("ORDERS");
  service = startService({ DATABASE_TIMEOUT_MS: "500" }, line.bindings);
  ({ id: keyId, key } = await createApiKey());
  await placeManyOrders(COUNT);
  await cutIntoSegments(2);
  await service("/v1/nothing", { key });
});

/** Reads a response body as far as possible. Also returns whether the body was cut off. */
async function readBody(response: Response): Promise<{ text: string; isBroken: boolean }> {
  const decoder = new TextDecoder();
  let text = "";
  try {
    for await (const chunk of response.body!) text += decoder.decode(chunk, { stream: true });
    return { text, isBroken: false };
  } catch {
    return { text, isBroken: true };
  }
}

test.each<[string, Outcome[]]>([
  ["its second query gets no response", [PASS, HANG]],
  ["its last query gets no response", [PASS, PASS, PASS, PASS, PASS, HANG]],
  [
    "its second query has an error in the statement",
    [PASS, fail("D1_ERROR: no such column: SQLITE_ERROR")],
  ],
])("a list is cut off as invalid JSON if %s", async (_, outcomes) => {
  line.script.next(...outcomes);
  const response = await service(LIST, { key });
  expect(response.status).toBe(200);
  quotaOf(response);
  const { text, isBroken } = await readBody(response);
  expect(isBroken).toBe(true);
  expect(text).toMatch(/^\[\{"id":1\},/);
  expect(() => JSON.parse(text)).toThrow(SyntaxError);
  await vi.waitFor(() =>
    expect(log()).toContainEqual(
      expect.objectContaining({
        event: "order_list_broken",
        requestId: response.headers.get("X-Request-Id"),
        keyId,
      }),
    ),
  );
  expect(log()).toHaveLength(1);

  line.script.next();
  // After a query has timed out, the service sends no queries for a second.
  const nowMs = Date.now();
  vi.spyOn(Date, "now").mockReturnValue(nowMs + 1_000);
  const whole = (await (await service(LIST, { key })).json()) as { id: number }[];
  expect(whole.map(({ id }) => id)).toStrictEqual(Array.from({ length: COUNT }, (__, n) => n + 1));
});

test("a list is cut off if the database stays unreachable", async () => {
  const response = await service(LIST, { key });
  line.script.always(LOST);
  expect((await readBody(response)).isBroken).toBe(true);
  expect(log()).toMatchObject([{ event: "order_list_broken", keyId }]);
});

test("a list is complete although later queries fail temporarily", async () => {
  line.script.next(PASS, LOST, PASS, LOST, LOST, PASS);
  const response = await service(LIST, { key });
  expect((await response.json()) as unknown[]).toHaveLength(COUNT);
  expect(log()).toStrictEqual([]);
});

/** Reads the first piece of a list, runs statements, and then reads the rest. */
async function listAround(...statements: readonly string[]) {
  const response = await service(LIST, { key });
  const reader = response.body!.getReader();
  let text = new TextDecoder().decode((await reader.read()).value);
  await env.ORDERS.batch(statements.map((sql) => env.ORDERS.prepare(sql)));
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      text += new TextDecoder().decode(read.value);
    }
  } catch {
    return { response, text, isBroken: true };
  }
  return { response, text, isBroken: false };
}

test("a list is complete and of one moment although orders are cancelled, placed and changed while it is sent", async () => {
  const { text, isBroken } = await listAround(
    `UPDATE orders SET quantity = 1 WHERE id > 20`,
    `UPDATE orders SET quantity = 2, status = 'shipped' WHERE id = ${COUNT}`,
    "DELETE FROM orders WHERE id = 30",
    "INSERT INTO orders (id) VALUES (1000)",
    "INSERT OR REPLACE INTO orders (id, pet_id) VALUES (31, 7)",
  );
  expect(isBroken).toBe(false);
  expect(JSON.parse(text)).toStrictEqual(Array.from({ length: COUNT }, (_, n) => ({ id: n + 1 })));
  expect(log()).toStrictEqual([]);
});

test("a list is cut off if a bulk change replaces orders while it is sent, and is complete when requested again", async () => {
  const { response, text, isBroken } = await listAround(
    "INSERT INTO order_bulk_change (id, changed) VALUES (1, 1)",
    "UPDATE order_segments SET version = lower(hex(randomblob(16)))",
    "DELETE FROM order_bulk_change",
  );
  expect(isBroken).toBe(true);
  expect(() => JSON.parse(text)).toThrow(SyntaxError);
  const requestId = response.headers.get("X-Request-Id");
  expect(log()).toMatchObject([{ event: "order_list_moved", requestId, keyId }]);
  expect((await (await service(LIST, { key })).json()) as unknown[]).toHaveLength(COUNT);
});

test("a list is complete although the database is busy for a moment", async () => {
  const BUSY = fail("D1_ERROR: database is locked: SQLITE_BUSY");
  line.script.next(BUSY, PASS, BUSY, BUSY, PASS, BUSY);
  const response = await service(LIST, { key });
  expect((await response.json()) as unknown[]).toHaveLength(COUNT);
  expect(log()).toStrictEqual([]);
});

test("the response is 503 instead of 200 if the first query of a list fails", async () => {
  line.script.next(LOST);
  const response = await service(LIST, { key });
  expect(response.status).toBe(503);
  expect(await response.json()).toMatchObject({ code: "service_unavailable" });
});

test("if a client disconnects, the service stops querying and logs nothing", async () => {
  line.script.calls = 0;
  const response = await service(LIST, { key });
  const reader = response.body!.getReader();
  await reader.read();
  await reader.cancel();
  expect(line.script.calls).toBeLessThanOrEqual(2);
  expect(log()).toStrictEqual([]);
});
