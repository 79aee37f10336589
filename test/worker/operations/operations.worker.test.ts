import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import { generateSecret } from "../../../src/store/keys/new-secret.ts";
import { createApiKey, createEnterpriseKey, rotate } from "../../support/api-key-fixture.ts";
import { HOUR_MS } from "../../support/clock.ts";
import { limiterStorage } from "../../support/limiter.ts";
import { cutIntoSegments, placeManyOrders } from "../../support/order-fixture.ts";
import { LIST, type RequestOptions, settle, startService } from "../../support/service.ts";
import { wrapBinding } from "../../support/wrapped-bindings.ts";

/** What Cloudflare bills, or what keeps the D1 database busy. A batch of statements is one query. */
const NONE = { objectCalls: 0, objectRowsWritten: 0, queries: 0, rowsRead: 0, rowsWritten: 0 };
const counted = { ...NONE };
const countingQueries = (database: D1Database) =>
  wrapBinding(database, async (call) => {
    counted.queries += 1;
    const result = await call();
    for (const { meta } of [result].flat() as D1Result[]) {
      counted.rowsRead += meta.rows_read;
      counted.rowsWritten += meta.rows_written;
    }
    return result;
  });
const BINDINGS = {
  ORDERS: countingQueries(env.ORDERS),
  KEYS: countingQueries(env.KEYS),
  RATE_LIMITER: wrapBinding(env.RATE_LIMITER, (call) => {
    counted.objectCalls += 1;
    return call();
  }),
};

function startIsolate(sender: RequestOptions, vars: Record<string, string> = {}) {
  const isolate = startService(vars, BINDINGS);
  return async (options: RequestOptions = {}, path = LIST) => {
    const response = await isolate(path, { ...sender, ...options });
    await response.arrayBuffer();
    return response.headers.get("ETag") ?? "";
  };
}

/** Returns the operations of some work for a key, and of the background work after it. */
async function operationsFor(id: string, work: () => Promise<unknown>) {
  const objectRows = async () => (await limiterStorage(`key:${id}`)).rowsWritten;
  const before = await objectRows();
  Object.assign(counted, NONE);
  await work();
  await settle();
  return { ...counted, objectRowsWritten: (await objectRows()) - before };
}

async function warmIsolate({ perMinute = 1_000, vars = {}, orders = 20, perSegment = 20 } = {}) {
  const { key, id } = await createEnterpriseKey(perMinute, 1_000);
  await placeManyOrders(orders);
  await cutIntoSegments(perSegment);
  const request = startIsolate({ key }, vars);
  for (let n = 1; n < Math.min(perMinute, 3); n++) await request();
  const operationsOf = (...options: Parameters<typeof request>) =>
    operationsFor(id, () => request(...options));
  return { request, operationsOf, key, id };
}

const ADMISSION = { ...NONE, objectCalls: 1, objectRowsWritten: 1 };
/** A list that is answered with 304, or from the isolate's memory. */
const UNCHANGED_LIST = { ...ADMISSION, queries: 1, rowsRead: 1 };
const CANCEL = { method: "DELETE" };
const NO_ORDER = `${LIST}/none`;

test.for([{}, { LIST_READS: "nearest" }])(
  "an unchanged list, and cancellations with and without effect, with %j",
  async (vars) => {
    const { request, operationsOf } = await warmIsolate({ vars });
    const headers = { "If-None-Match": await request() };
    expect(await operationsOf()).toEqual(UNCHANGED_LIST);
    expect(await operationsOf({ headers })).toEqual(UNCHANGED_LIST);
    const done = { ...ADMISSION, queries: 1, rowsRead: 16, rowsWritten: 6 };
    expect(await operationsOf(CANCEL, `${LIST}/7`)).toEqual(done);
    const vain = { ...ADMISSION, queries: 1, rowsRead: 5 };
    expect(await operationsOf(CANCEL, `${LIST}/7`)).toEqual(vain);
    await env.ORDERS.exec("UPDATE orders SET status = 'shipped' WHERE id = 8");
    expect(await operationsOf(CANCEL, `${LIST}/8`)).toEqual(vain);
    expect(await operationsOf(CANCEL, NO_ORDER)).toEqual(ADMISSION);
  },
);

test("a key that the isolate does not remember, and requests without a valid key, look up at most once and write nothing", async () => {
  const { key, id } = await warmIsolate();
  const own = await rotate(id, HOUR_MS);
  for (let n = 0; n < 5; n++) await rotate((await createApiKey()).id, HOUR_MS);
  const { key: revoked } = await createApiKey({ revokedAt: new Date() });
  // In each half of the look-up's UNION, D1 also counts one row for the wanted hash.
  for (const [sent, queries, rowsRead, admission] of [
    [own, 1, 3, ADMISSION],
    [key, 1, 4, ADMISSION],
    [revoked, 1, 3, NONE],
    [generateSecret(), 1, 2, NONE],
    ["", 0, 0, NONE],
  ] as const) {
    const request = startIsolate(sent === "" ? {} : { key: sent });
    const operations = () => operationsFor(id, () => request(CANCEL, NO_ORDER));
    expect(await operations(), sent).toEqual({ ...admission, queries, rowsRead });
    expect(await operations(), sent).toEqual(admission);
  }
});

test("a refusal by the Durable Object, and a refusal from the isolate's memory", async () => {
  const { request, operationsOf } = await warmIsolate({ perMinute: 2 });
  await request();
  // The isolate has already begun to read the list.
  expect(await operationsOf()).toEqual({ ...UNCHANGED_LIST, objectRowsWritten: 0 });
  expect(await operationsOf()).toEqual(NONE);
});

test("a list of 40 segments reads those that memory lacks", async () => {
  const [segments, perSegment] = [40, 200];
  const { request, key, id } = await warmIsolate({ orders: segments * perSegment, perSegment });
  await env.ORDERS.exec("UPDATE orders SET quantity = 77 WHERE id = 3107");
  const another = startIsolate({ key });
  await another(CANCEL, NO_ORDER);
  for (const [list, missing, queries] of [
    [request, 1, 1],
    // The first query reads one segment, each further one twelve.
    [another, segments, 5],
  ] as const) {
    const { rowsRead, ...others } = await operationsFor(id, list);
    expect({ ...others, rowsRead: 0 }).toEqual({ ...ADMISSION, queries });
    // Six rows for each segment in the manifest, and three for each segment that is read.
    expect(rowsRead).toBeLessThanOrEqual(10 + segments * 6 + missing * (perSegment + 3));
  }
});
