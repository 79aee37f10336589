import fc from "fast-check";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { LIST_SIZES, ListPlaces, ListUnderWay } from "../../../src/worker/orders/list-stream.ts";
import { MAX_SHORTHAND_BYTES } from "../../../src/worker/orders/shorthand/letters.ts";
import { expander } from "./isolates/expander.ts";

const MINUTE = LIST_SIZES.stallMs;
/** The most orders that a segment may have, and that a list needs. */
const SEGMENT_ORDERS = 12_288;
const LARGEST = 4 * SEGMENT_ORDERS + LIST_SIZES.pieceOrders;

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"] }));
afterEach(() => void vi.useRealTimers());

/** A list whose client has taken nothing for `stalledMs`. */
const listOf = (keyId: string, own: number, stalledMs = 0, ahead = 0) => ({
  keyId,
  own,
  ahead,
  movedMs: Date.now() - stalledMs,
  isCut: false,
  forgetAhead(): void {
    this.ahead = 0;
  },
  cutOff(): void {
    this.isCut = true;
  },
});

test("No key can take the lists from another: whatever one key does, any list of another key finds room", () => {
  const act = fc.record({
    orders: fc.integer({ min: 1, max: LARGEST }),
    ahead: fc.integer({ min: 0, max: 8 * SEGMENT_ORDERS }),
    waitMs: fc.constantFrom(0, 1_000, MINUTE, -MINUTE),
    ends: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(act, { maxLength: 80 }), (acts) => {
      const places = new ListPlaces(LIST_SIZES);
      for (const { orders, ahead, waitMs, ends } of acts) {
        const list = listOf("hostile", orders);
        const hasPlace = places.take(list);
        vi.setSystemTime(Date.now() + waitMs);
        if (places.allowsAhead(list, ahead)) list.ahead += ahead;
        if (!hasPlace) expect(list.ahead).toBe(0);
        expect(places.held).toBeLessThanOrEqual(LIST_SIZES.heldOrders / 2);
        if (ends) places.end(list);
      }
      expect(places.take(listOf("other", LARGEST))).toBe(true);
    }),
  );
});

test("the lists of many keys hold at most 40 MB, and a fifth key still finds room for a list of a million", () => {
  const places = new ListPlaces(LIST_SIZES);
  const million = 8_192 + LIST_SIZES.pieceOrders;
  const opened = ["a", "b", "c", "d", "e", "f", "g"].map((key) => {
    let lists = 0;
    while (places.take(listOf(key, million))) lists += 1;
    return lists;
  });
  expect(opened.slice(0, 5).every((lists) => lists > 0)).toBe(true);
  expect(opened[0]).toBe(15);
  expect(LIST_SIZES.heldOrders * MAX_SHORTHAND_BYTES).toBeLessThan(40 * 2 ** 20);
});

/**
 * Lists of one order as `key+ahead:stalled seconds`, the orders of another list with the key `z`, and
 * the places of the lists that are cut off for it; `null` if it finds no room.
 */
test.each<[string, number, string, number, number[] | null]>([
  ["nobody in the first minute", 4, "a:59 b:0 c:0", 1, null],
  ["the longest-stalled one", 4, "a:0 b:120 c:60", 1, [1]],
  ["nobody in vain", 7, "a:60 a:0 a:0", 3, null],
  ["one if that is enough", 8, "a:60 a:0 a:0", 3, [0]],
  ["its own, if its key has more lists", 6, "a:120 z:60 z:0", 1, [1]],
  ["no other's, if its key has more lists", 6, "a:120 z:0 z:0", 1, null],
  ["nobody if one has read ahead", 8, "a+3:60", 3, []],
  ["nobody that takes what it reads ahead", 8, "a+3:59", 3, null],
  ["nobody whose clock was set back", 8, "a+3:-120", 3, null],
])("a list that needs a place cuts off %s", (_, heldOrders, listed, own, cut) => {
  const places = new ListPlaces({ heldOrders, stallMs: MINUTE });
  const lists = [...listed.matchAll(/(\w)\+?(\d?):(-?\d+)/g)].map(([, key, ahead, seconds]) =>
    listOf(key!, 1, Number(seconds) * 1_000, Number(ahead)),
  );
  for (const list of lists) expect(places.take(list)).toBe(true);
  expect(places.take(listOf("z", own))).toBe(cut !== null);
  expect(lists.flatMap(({ isCut }, at) => (isCut ? [at] : []))).toStrictEqual(cut ?? []);
  vi.setSystemTime(Date.now() + MINUTE);
  if (cut === null) expect(places.take(listOf("z", own))).toBe(true);
});

test("a list produces a piece only when its client asks, moves then and when the piece is ready, and fails as a lost connection", async () => {
  const segments = ["a", "b"].map((version) => ({ firstId: "1", lastId: "1", version, count: 1 }));
  const lost = new Error("lost");
  const movedMs: number[] = [];
  const read = async ([first]: readonly { version: string }[]) => {
    movedMs.push(list.movedMs);
    vi.setSystemTime(Date.now() + 10_000);
    if (first?.version === "b") throw lost;
    return new Map([["a", "1pqsn"]]);
  };
  const source = { keyId: "key", segments, remembered: () => undefined, read };
  const list = new ListUnderWay(source, new ListPlaces(LIST_SIZES), expander, LIST_SIZES);
  const few = { ...LIST_SIZES, maxQueries: 1 };
  const places = new ListPlaces(few);
  const whole = new ListUnderWay(source, places, expander, few);
  expect(places.take(whole)).toBe(true);
  // Both segments in one query, and a piece; the second one was read ahead with the manifest.
  expect(places.held).toBe(2 + few.pieceOrders);
  const sent = whole.stream(new Map(segments.map(({ version }) => [version, "1pqsn"])), vi.fn());
  expect(places.held).toBe(2 + few.pieceOrders + 1);
  await sent.cancel();
  expect([places.held, whole.ahead]).toStrictEqual([0, 0]);
  const onEnd = vi.fn();
  const reader = list.stream(new Map(), onEnd).getReader();
  await new Promise((resolve) => void setImmediate(resolve));
  expect(movedMs).toStrictEqual([]);
  vi.setSystemTime(Date.now() + 5_000);
  const askedMs = Date.now();
  expect(new TextDecoder().decode((await reader.read()).value)).toBe('[{"id":1}');
  expect([...movedMs, list.movedMs]).toStrictEqual([askedMs, askedMs + 10_000]);
  // workerd reports a stream's error as an uncaught exception, unless the error is retryable.
  await expect(reader.read()).rejects.toMatchObject({ cause: lost, retryable: true });
  expect(onEnd).toHaveBeenCalledExactlyOnceWith(lost);
});

test("a list reads ahead as far as there is room, to the last order", async () => {
  const sizes = { ...LIST_SIZES, groupSegments: 1, pieceOrders: 2, heldOrders: 10 };
  const segments = ["a", "b", "c"].map((version) => {
    return { firstId: "1", lastId: "1", version, count: 1 };
  });
  const read = vi.fn(async ([one]: readonly { version: string }[]) => {
    return new Map([[one!.version, "1pqsn"]]);
  });
  const places = new ListPlaces(sizes);
  const source = { keyId: "key", segments, remembered: () => undefined, read };
  const list = new ListUnderWay(source, places, expander, sizes);
  expect(places.take(list)).toBe(true);
  const reader = list.stream(new Map(), vi.fn()).getReader();
  for (const queries of [1, 3]) {
    await reader.read();
    expect(read).toHaveBeenCalledTimes(queries);
  }
});

test("the JSON fits into the memory even if it is as long as it can be for its shorthand", () => {
  const shorthand = Array(100_000).fill("1p1q1sf").join("i");
  const json = expander.expand(shorthand, { opening: "[", closing: "]" });
  const order = { id: 1, petId: 1, quantity: 1, complete: false };
  expect(new TextDecoder().decode(json) === JSON.stringify(Array(100_000).fill(order))).toBe(true);
});
