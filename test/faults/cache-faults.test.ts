import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { PAGE_ORDERS } from "../../src/orders/order-pages.ts";
import { createApiKey } from "../fixtures/api-key-fixture.ts";
import { placeManyOrders } from "../fixtures/order-fixture.ts";
import { type Send, startService } from "../fixtures/service.ts";
import { fail } from "./fault-script.ts";
import { type FaultyDatabase, faultyDatabase } from "./faulty-bindings.ts";
import { readLog } from "./log-lines.ts";

const LIST = "/v1/store/orders";
const COUNT = PAGE_ORDERS + 5;

const breaks = () => Promise.reject(new Error("Internal error: the cache cannot be reached."));
const breaksAtOnce = () => {
  throw new TypeError("Cache API is not available.");
};

let line: FaultyDatabase;
let service: Send;
let key: string;

beforeEach(async () => {
  readLog();
  line = faultyDatabase();
  service = startService({}, { DB: line.database });
  ({ key } = await createApiKey());
  await placeManyOrders(COUNT);
});

afterEach(() => vi.unstubAllGlobals());

/** Puts a cache in place of the runtime's. */
function useCache(faults: Partial<Record<"open" | "match" | "put" | "delete", unknown>>): void {
  const real = caches;
  const open = async (name: string) => {
    const cache = await real.open(name);
    return {
      match: (url: string) => cache.match(url),
      put: (url: string, response: Response) => cache.put(url, response),
      delete: (url: string) => cache.delete(url),
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

describe("a long list is whole, again and again", () => {
  test.each([
    ["there is no cache", { open: breaksAtOnce }],
    ["the cache cannot be opened", { open: breaks }],
    ["nothing can be looked up", { match: breaks }],
    ["nothing can be kept", { put: breaks }],
    ["nothing that is kept is found", { match: () => Promise.resolve(undefined) }],
    ["nothing can be removed", { delete: breaks }],
  ])("where %s", async (_, faults) => {
    useCache(faults);
    for (let n = 0; n < 3; n++) await expectWhole(await service(LIST, { key }));
    await service(`${LIST}/-1`, { method: "DELETE", key });
    await expectWhole(await service(LIST, { key }));
  });

  test("where the cache has lost what it had", async () => {
    useCache({});
    await expectWhole(await service(LIST, { key }));
    await vi.waitFor(async () => {
      line.statements.length = 0;
      await expectWhole(await service(LIST, { key }));
      expect(line.statements).toHaveLength(1); // From the cache: only the version was read.
    });
    useCache({ match: () => Promise.resolve(undefined) });
    await expectWhole(await service(LIST, { key }));
  });
});

test("a list that breaks off on its way into the cache is not kept there", async () => {
  const kept: string[] = [];
  useCache({
    put: async (_: string, response: Response) => {
      kept.push(await response.text());
    },
  });
  const pass = { do: "pass" } as const;
  // The key, the two pages that are sent, the first page for the cache, and then the fault.
  line.script.next(pass, pass, pass, pass, fail("D1_ERROR: Network connection lost."));
  await expectWhole(await service(LIST, { key }));
  await vi.waitFor(() => expect(line.script.calls).toBeGreaterThanOrEqual(5));
  expect(kept).toStrictEqual([]);
  await expectWhole(await service(LIST, { key }));
});

test("a list that changes on its way into the cache is not kept there", async () => {
  const outcomes: string[] = [];
  useCache({
    put: async (_: string, response: Response) => {
      // Its first page has been read by now, the second one has not.
      await env.DB.exec("UPDATE orders SET quantity = 1 WHERE id = 1");
      await response.text().then(
        () => outcomes.push("whole"),
        () => outcomes.push("broken off"),
      );
    },
  });
  await expectWhole(await service(LIST, { key }));
  await vi.waitFor(() => expect(outcomes).toStrictEqual(["broken off"]));
});

test("lists that miss at once are put into the cache once", async () => {
  let puts = 0;
  useCache({
    put: async (_: string, response: Response) => {
      puts += 1;
      await response.text();
    },
  });
  const responses = await Promise.all([1, 2, 3].map(() => service(LIST, { key })));
  await Promise.all(responses.map(expectWhole));
  await vi.waitFor(() => expect(puts).toBe(1));
  await expectWhole(await service(LIST, { key }));
  expect(puts).toBe(1);
});
