import { env } from "cloudflare:workers";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { expectError, quotaOf } from "../../support/answer.ts";
import { createEnterpriseKey } from "../../support/api-key-fixture.ts";
import { cutIntoSegments, placeManyOrders } from "../../support/order-fixture.ts";
import { type Send, startService } from "../../support/service.ts";
import { type LogLine, readLog } from "./log-lines.ts";

const LIST = "/v1/store/orders";
const COUNT = 40;
/** The number of unread lists that fit into the memory limit of 40 MiB. */
const MANY = 31;

let log: () => LogLine[];
let service: Send;
let key: string;

beforeEach(async () => {
  log = readLog();
  service = startService();
  ({ key } = await createEnterpriseKey(10_000, 10_000));
  await placeManyOrders(COUNT);
  await cutIntoSegments(2);
});
afterEach(() => void vi.useRealTimers());

/** Requests lists without reading them, until the service refuses one. Returns the lists. */
async function fill(): Promise<Response[]> {
  const responses: Response[] = [];
  for (let n = 0; n < MANY + 10; n += 1) {
    const response = await service(LIST, { key });
    if (response.status !== 200) {
      await response.body?.cancel();
      break;
    }
    responses.push(response);
  }
  return responses;
}

test("a request for a long list receives 503 if the list does not fit into memory, until another list has ended", async () => {
  const responses = await fill();
  expect(responses).toHaveLength(MANY);
  const refused = await service(LIST, { key });
  quotaOf(refused);
  expect(refused.headers.get("Retry-After")).toBe("5");
  expect(await expectError(refused, 503, "service_unavailable")).toMatch(/too many long lists/);
  expect(log().at(-1)).toMatchObject({
    event: "order_lists_too_many",
    requestId: refused.headers.get("X-Request-Id"),
  });
  expect((await service(LIST, { key, method: "HEAD" })).status).toBe(503);

  expect(await responses[0]!.json()).toHaveLength(COUNT);
  const afterOneEnded = await service(LIST, { key });
  expect(afterOneEnded.status).toBe(200);
  await responses[1]!.body!.cancel();
  expect((await fill()).length).toBeGreaterThan(0);
  expect((await service(LIST, { key })).status).toBe(503);

  // After a minute, the memory of clients that vanished without closing the connection is free
  // again.
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 61_000 });
  expect((await service(LIST, { key, method: "HEAD" })).status).toBe(200);
  expect((await fill()).length).toBeGreaterThan(MANY - 2);
}, 30_000);

test("the list of a store with too many segments is refused with 503 and an explanation", async () => {
  await env.ORDERS.exec(
    "INSERT INTO order_segments (first_id, version, count) WITH RECURSIVE n(i) AS (SELECT 1000 UNION ALL SELECT i + 1 FROM n WHERE i < 4600) SELECT i, lower(hex(randomblob(16))), 8192 FROM n; UPDATE order_list SET version = lower(hex(randomblob(16)))",
  );
  const response = await service(LIST, { key });
  expect(response.headers.get("Retry-After")).toBe("3600");
  expect(await expectError(response, 503, "service_unavailable")).toMatch(/more orders than/);
  expect(log().at(-1)).toMatchObject({ event: "order_list_too_long" });
});
