import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { cutIntoSegments, placeManyOrders } from "../../support/order-fixture.ts";
import { type Send, settle, startService } from "../../support/service.ts";
import { type FaultyDatabases, faultyDatabases } from "./faulty-bindings.ts";
import { readLog } from "./log-lines.ts";

const LIST = "/v1/store/orders";
/**
 * The number of orders, stored in 20 segments of two. For a list, the service reads the first
 * segment with the first query. It takes the other segments from the cache if possible.
 */
const COUNT = 40;

const breaks = () => Promise.reject(new Error("Internal error: the cache cannot be reached."));
const breaksAtOnce = () => {
  throw new TypeError("Cache API is not available.");
};

let line: FaultyDatabases;
let service: Send;
let key: string;

beforeEach(async () => {
  readLog();
  line = faultyDatabases("ORDERS");
  service = startService({}, line.bindings);
  ({ key } = await createApiKey());
  await placeManyOrders(COUNT);
  await cutIntoSegments(2);
});

afterEach(() => vi.unstubAllGlobals());

/** Replaces methods of the runtime's cache with `faults`. */
function useCache(faults: Partial<Record<"open" | "match" | "put", unknown>>): void {
  const real = caches;
  const open = async (name: string) => {
    const cache = await real.open(name);
    return {
      match: (url: string) => cache.match(url),
      put: (url: string, response: Response) => cache.put(url, response),
      ...faults,
    };
  };
  vi.stubGlobal("caches", { open: faults.open ?? open });
}

async function expectWhole(response: Response): Promise<void> {
  expect(response.status).toBe(200);
  const orders = (await response.json()) as { id: number }[];
  expect(orders).toHaveLength(COUNT);
  expect(orders.at(-1)).toStrictEqual({ id: COUNT });
}

describe("a long list is complete every time", () => {
  test.each([
    ["there is no cache", { open: breaksAtOnce }],
    ["the cache cannot be opened", { open: breaks }],
    ["lookups fail", { match: breaks }],
    ["nothing can be stored", { put: breaks }],
    ["stored entries are never found", { match: () => Promise.resolve(undefined) }],
  ])("if %s", async (_, faults) => {
    useCache(faults);
    for (let n = 0; n < 3; n++) await expectWhole(await service(LIST, { key }));
    await service(`${LIST}/-1`, { method: "DELETE", key });
    await expectWhole(await service(LIST, { key }));
  });
});

/** Requests the list once in a new isolate. Returns the number of database queries. */
async function queriesOfNewIsolate(): Promise<number> {
  const isolate = startService({}, line.bindings);
  await isolate("/v1/nothing", { key });
  line.script.calls = 0;
  await expectWhole(await isolate(LIST, { key }));
  const { calls } = line.script;
  await settle();
  return calls;
}

test("a new isolate reads from the cache the segments that another isolate has read", async () => {
  useCache({});
  expect(await queriesOfNewIsolate()).toBe(6); // One query for the manifest and the first segment, then 19 segments in groups of four.
  expect(await queriesOfNewIsolate()).toBe(1);
  useCache({ match: () => Promise.resolve(undefined) });
  expect(await queriesOfNewIsolate()).toBe(6);
});

test("a list from memory does not use the cache", async () => {
  useCache({});
  await expectWhole(await service(LIST, { key }));
  useCache({ open: breaks });
  line.script.calls = 0;
  await expectWhole(await service(LIST, { key }));
  expect(line.script.calls).toBe(1);
});

test("a list whose client disconnects has stored only complete segments in the cache", async () => {
  const kept: string[] = [];
  useCache({
    put: async (_: string, response: Response) => {
      kept.push(await response.text());
    },
  });
  const response = await service(LIST, { key });
  const reader = response.body!.getReader();
  await reader.read();
  await reader.cancel();
  await settle();
  for (const text of kept) expect(text).toMatch(/^(?:\d+pqsni\d+pqsn\n){1,4}$/);
  expect(kept.length).toBeGreaterThan(0);
});

test("without a cache, no segment is read twice", async () => {
  useCache({ open: breaksAtOnce });
  expect(await queriesOfNewIsolate()).toBe(6);
});
