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

test("a list is cut off if orders change in segments not yet read, and is complete when requested again", async () => {
  const response = await service(LIST, { key });
  const reader = response.body!.getReader();
  await reader.read();
  await env.ORDERS.exec(`UPDATE orders SET quantity = 1 WHERE id = ${COUNT}`);
  const rest = async () => {
    while (!(await reader.read()).done);
  };
  await expect(rest()).rejects.toThrow();
  const requestId = response.headers.get("X-Request-Id");
  expect(log()).toMatchObject([{ event: "order_list_moved", requestId, keyId }]);
  line.script.calls = 0;
  const again = (await (await service(LIST, { key })).json()) as unknown[];
  expect(again).toHaveLength(COUNT);
  expect(line.script.calls).toBe(1); // One query reads the manifest and the few segments that are not in memory.
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
