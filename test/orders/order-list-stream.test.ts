import { beforeEach, expect, test, vi } from "vitest";
import { orderListStream } from "../../src/orders/order-list-stream.ts";
import type { OrderPage, OrderPages } from "../../src/orders/order-pages.ts";

const PAGES = ['[{"id":1}', ',{"id":2}', ',{"id":3}', ',{"id":4}]'];

/** The pages that have been asked for, by the id that they begin with. */
let asked: bigint[];
let reader: ReadableStreamDefaultReader<Uint8Array>;

beforeEach(() => {
  vi.restoreAllMocks();
  const nextIds: bigint[] = [];
  asked = nextIds;
  const pages = {
    next(nextId: bigint) {
      nextIds.push(nextId);
      return Promise.resolve(pageFrom(nextId));
    },
  } as OrderPages;
  reader = orderListStream(pages, pageFrom(1n), {}).getReader();
});

function pageFrom(id: bigint): OrderPage {
  const json = Uint8Array.from(new TextEncoder().encode(PAGES[Number(id) - 1]));
  return { version: "v", json, nextId: id < PAGES.length ? id + 1n : null };
}

async function read(): Promise<string> {
  return new TextDecoder().decode((await reader.read()).value);
}

/** Lets everything happen that waits for nobody. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await scheduler.wait(0);
}

test("nothing is asked for before somebody reads", async () => {
  await settle();
  expect(asked).toStrictEqual([]);
});

test("a page is handed on before the next is asked for", async () => {
  expect(await read()).toBe(PAGES[0]);
  expect(asked).toStrictEqual([]);
});

test("the next page is read while the one before it is sent, and none beyond", async () => {
  for (const [index, page] of PAGES.entries()) {
    expect(await read()).toBe(page);
    const upcoming = [2n, 3n, 4n].slice(0, index + 1);
    await vi.waitFor(() => expect(asked).toStrictEqual(upcoming));
    await settle();
    expect(asked).toStrictEqual(upcoming);
  }
  expect(await reader.read()).toStrictEqual({ done: true, value: undefined });
});

test("others have a turn at the beginning and after every eight pages", async () => {
  const turns = vi.spyOn(scheduler, "wait");
  const lastId = 20n;
  const page = (id: bigint) => ({ ...pageFrom(1n), nextId: id < lastId ? id + 1n : null });
  const pages = { next: (id: bigint) => Promise.resolve(page(id)) } as OrderPages;
  const list = await new Response(orderListStream(pages, page(1n), {})).text();
  expect(list).toBe(PAGES[0]!.repeat(20));
  expect(turns).toHaveBeenCalledTimes(3);
});

test("no page is asked for after the reader has left", async () => {
  await read();
  await vi.waitFor(() => expect(asked).toStrictEqual([2n]));
  await reader.cancel();
  await settle();
  expect(asked).toStrictEqual([2n]);
});
