import fc from "fast-check";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { LIST_SIZES, ListPlaces, type Place } from "../../../src/worker/orders/list-memory.ts";
import { MAX_SHORTHAND_BYTES } from "../../../src/worker/orders/shorthand/letters.ts";

const STALL_MS = 60_000;
/** The most orders that a segment may have, and that a list needs. */
const SEGMENT_ORDERS = 12_288;
const LARGEST = 4 * SEGMENT_ORDERS + LIST_SIZES.pieceOrders;

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: 0 }));
afterEach(() => void vi.useRealTimers());

const open = (places: ListPlaces, key: string, orders: number) => {
  const list = { key, isCut: false, hasForgotten: false, place: null as Place | null };
  list.place = places.take(key, orders, {
    cutOff: () => void (list.isCut = true),
    forgetAhead: () => void (list.hasForgotten = true),
  });
  return list;
};

test("No key can take the lists from another: whatever one key does, any list of another key finds room", () => {
  const act = fc.record({
    orders: fc.integer({ min: 1, max: LARGEST }),
    ahead: fc.integer({ min: 0, max: 8 * SEGMENT_ORDERS }),
    waitMs: fc.constantFrom(0, 1_000, STALL_MS, -STALL_MS),
    ends: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(act, { maxLength: 80 }), (acts) => {
      const places = new ListPlaces(LIST_SIZES);
      for (const { orders, ahead, waitMs, ends } of acts) {
        const { place } = open(places, "hostile", orders);
        vi.setSystemTime(Math.max(0, Date.now() + waitMs));
        place?.readAhead(ahead);
        expect(places.held).toBeLessThanOrEqual(LIST_SIZES.heldOrders / 2);
        if (ends) place?.end();
      }
      expect(open(places, "other", LARGEST).place).not.toBeNull();
    }),
  );
});

test("the lists of many keys hold at most 40 MB, and a fifth key still finds room for a list of a million", () => {
  const places = new ListPlaces(LIST_SIZES);
  const million = 8_192 + LIST_SIZES.pieceOrders;
  const opened = ["a", "b", "c", "d", "e", "f", "g"].map((key) => {
    let lists = 0;
    while (open(places, key, million).place !== null) lists += 1;
    return lists;
  });
  expect(opened.slice(0, 5).every((lists) => lists > 0)).toBe(true);
  expect(opened[0]).toBe(22);
  expect(LIST_SIZES.heldOrders * MAX_SHORTHAND_BYTES).toBeLessThan(40 * 2 ** 20);
});

test("a stalled list is cut off only if another one needs its place, the longest-stalled one first", () => {
  const places = new ListPlaces({ heldOrders: 4, stallMs: STALL_MS });
  const lists = ["a", "b", "c"].map((key, atMs) => {
    vi.setSystemTime(atMs);
    return open(places, key, 1);
  });
  const cut = () => lists.map(({ isCut }) => isCut);
  vi.setSystemTime(STALL_MS - 1);
  expect(open(places, "d", 1).place).toBeNull();
  vi.setSystemTime(60 * STALL_MS);
  lists[0]!.place!.moved();
  expect(cut()).toStrictEqual([false, false, false]);
  expect(open(places, "d", 1).place).not.toBeNull();
  expect(cut()).toStrictEqual([false, true, false]);
});

test("a key with more lists than others displaces only its own stalled lists", () => {
  const places = new ListPlaces({ heldOrders: 6, stallMs: STALL_MS });
  const slow = open(places, "slow", 1);
  vi.setSystemTime(1);
  const own = [open(places, "many", 1), open(places, "many", 1)];
  expect(open(places, "many", 1).place).toBeNull();
  vi.setSystemTime(2 * STALL_MS);
  expect(open(places, "many", 1).place).not.toBeNull();
  expect([slow, ...own].map(({ isCut }) => isCut)).toStrictEqual([false, true, false]);
});

test("a stalled list first gives back what it has read ahead, and a clock that was set back keeps no list alive", () => {
  const places = new ListPlaces({ heldOrders: 8, stallMs: STALL_MS });
  vi.setSystemTime(10 * STALL_MS);
  const stalled = open(places, "a", 1);
  expect(stalled.place!.readAhead(3)).toBe(true);
  vi.setSystemTime(0);
  expect(open(places, "b", 3).place).toBeNull();
  vi.setSystemTime(STALL_MS);
  expect(open(places, "b", 3).place).not.toBeNull();
  expect(stalled).toMatchObject({ hasForgotten: true, isCut: false });
});

test.each([
  [7, false],
  [8, true],
])("of %i orders, a stalled list is cut off only if that makes enough room", (heldOrders, fits) => {
  const places = new ListPlaces({ heldOrders, stallMs: STALL_MS });
  const lists = [1, 2, 3].map(() => open(places, "a", 1));
  vi.setSystemTime(STALL_MS);
  for (const { place } of lists.slice(1)) place!.moved();
  expect(open(places, "b", 3).place !== null).toBe(fits);
  expect(lists.map(({ isCut }) => isCut)).toStrictEqual([fits, false, false]);
});
