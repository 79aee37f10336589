import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { LIST_SIZES, ListPlaces, ListUnderWay } from "../../../src/worker/orders/list-stream.ts";
import { MAX_SHORTHAND_BYTES } from "../../../src/worker/orders/shorthand/letters.ts";
import { expander } from "./isolates/expander.ts";

const MINUTE = LIST_SIZES.stallMs;
/** The most orders that a segment may have. */
const SEGMENT_ORDERS = 12_288;

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"] }));
afterEach(() => void vi.useRealTimers());

const pass = (ms: number) => void vi.setSystemTime(Date.now() + ms);

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

test("No key can take the lists from another: whatever one key holds, any list of another key finds room, and all of them hold at most 40 MB", () => {
  const places = new ListPlaces(LIST_SIZES);
  const million = 8_192 + LIST_SIZES.pieceOrders;
  const fill = (key: string) => {
    let lists = 0;
    while (places.take(listOf(key, million))) lists += 1;
    return lists;
  };
  expect(fill("a")).toBe(15);
  expect(places.held).toBeLessThanOrEqual(LIST_SIZES.heldOrders / 2);
  const largest = listOf("b", 4 * SEGMENT_ORDERS + LIST_SIZES.pieceOrders);
  expect(places.take(largest)).toBe(true);
  expect(places.allowsAhead(largest, LIST_SIZES.heldOrders / 4)).toBe(false);
  places.end(largest);
  // A fifth key still finds room for a list of a million orders.
  for (const key of ["b", "c", "d", "e"]) expect(fill(key)).toBeGreaterThan(0);
  expect(LIST_SIZES.heldOrders * MAX_SHORTHAND_BYTES).toBeLessThan(40 * 2 ** 20);
});

/**
 * Lists of one order as `key+ahead:stalled seconds`, the orders of another list with the key `z`, and
 * the places of the lists that are cut off for it; `null` if it finds no room.
 */
test.each<[string, number, string, number, number[] | null]>([
  ["the longest-stalled one", 4, "a:0 b:120 c:60", 1, [1]],
  ["nobody in vain", 7, "a:60 a:0 a:0", 3, null],
  ["its own, if its key has more lists", 6, "a:120 z:60 z:0", 1, [1]],
  ["no other's, if its key has more lists", 6, "a:120 z:0 z:0", 1, null],
  ["nobody if one has read ahead", 8, "a+3:60", 3, []],
  ["nobody whose clock was set back", 8, "a+3:-120", 3, null],
])("a list that needs a place cuts off %s", (_, heldOrders, listed, own, cut) => {
  const places = new ListPlaces({ heldOrders, stallMs: MINUTE });
  const lists = [...listed.matchAll(/(\w)\+?(\d?):(-?\d+)/g)].map(([, key, ahead, seconds]) =>
    listOf(key!, 1, Number(seconds) * 1_000, Number(ahead)),
  );
  for (const list of lists) expect(places.take(list)).toBe(true);
  expect(places.take(listOf("z", own))).toBe(cut !== null);
  expect(lists.flatMap(({ isCut }, at) => (isCut ? [at] : []))).toStrictEqual(cut ?? []);
  pass(MINUTE);
  if (cut === null) expect(places.take(listOf("z", own))).toBe(true);
});

const SIZES = { ...LIST_SIZES, pieceOrders: 2, groupSegments: 2, groupsAhead: 2, heldOrders: 100 };
/** What a list of the next test holds beside what it reads ahead: a segment and a piece. */
const OWN = 1 + SIZES.pieceOrders;

/** Sends a list of segments with one order each. Every query takes a second; `lost` fails. */
function send({ count = 12, withManifest = 0, maxQueries = SIZES.maxQueries, lost = -1 } = {}) {
  const sizes = { ...SIZES, maxQueries };
  const places = new ListPlaces(sizes);
  const versions = Array.from({ length: count }, (_, n) => `${n}`);
  const segments = versions.map((id) => ({ firstId: id, lastId: id, version: id, count: 1 }));
  const queried: string[] = [];
  const textsOf = (group: readonly { readonly version: string }[]) =>
    new Map(group.map(({ version }) => [version, `${version}pqsn`]));
  const read = async (group: readonly { readonly version: string }[]) => {
    queried.push(...group.map(({ version }) => version));
    pass(1_000);
    if (queried.includes(`${lost}`)) throw new Error("lost");
    return textsOf(group);
  };
  const source = { keyId: "key", segments, remembered: () => undefined, read };
  const list = new ListUnderWay(source, places, expander, sizes);
  expect(places.take(list)).toBe(true);
  const reader = list.stream(textsOf(segments.slice(0, withManifest)), () => undefined).getReader();
  const next = async () => new TextDecoder().decode((await reader.read()).value);
  return { places, list, versions, queried, reader, next };
}

test.each([
  ["reads two groups ahead, nothing twice", false],
  ["forgets what it read ahead and reads only what it needs, once it stalls", true],
])("a list begins after one query, counts all that it holds, and %s", async (_, stalls) => {
  const { places, versions, queried, next } = send();
  const other = listOf("other", (SIZES.heldOrders - OWN - 1) / 2);
  let text = "";
  let most = 0;
  for (let sent = 1; sent <= 12; sent += 1) {
    text += await next();
    const ahead = queried.length - sent;
    if (sent === 1) expect(ahead).toBe(0);
    most = Math.max(most, ahead);
    if (stalls && sent === 4) {
      pass(MINUTE);
      expect(places.take(other)).toBe(true);
      queried.length = sent;
    }
    if (stalls && sent >= 4) expect(places.held - other.own).toBe(OWN);
    else expect(places.held).toBeGreaterThanOrEqual(OWN + ahead);
  }
  expect(JSON.parse(text + (await next()))).toHaveLength(12);
  expect(queried).toStrictEqual(versions);
  expect(most).toBeGreaterThan(SIZES.groupSegments);
  expect(most).toBeLessThanOrEqual(SIZES.groupSegments * SIZES.groupsAhead);
  expect(places.held).toBe(stalls ? other.own : 0);
});

test("a list produces a piece only when its client asks, moves then and when the piece is ready, and fails as a lost connection", async () => {
  const { list, queried, reader, next, places } = send({ lost: 1 });
  await new Promise((resolve) => void setImmediate(resolve));
  expect(queried).toStrictEqual([]);
  pass(5_000);
  const askedMs = Date.now();
  const piece = next();
  expect(list.movedMs).toBe(askedMs);
  expect(await piece).toBe('[{"id":0}');
  expect(list.movedMs).toBe(askedMs + 1_000);
  // workerd reports a stream's error as an uncaught exception, unless the error is retryable.
  await expect(reader.read()).rejects.toMatchObject({ retryable: true });
  expect(places.held).toBe(0);
});

test("a list counts all segments of its longest query, and those that were read with the manifest", async () => {
  const { places, list, reader } = send({ count: 4, maxQueries: 2, withManifest: 3 });
  expect(places.held).toBe(2 + SIZES.pieceOrders + 2);
  await reader.cancel();
  expect([places.held, list.ahead]).toStrictEqual([0, 0]);
});

test("the JSON fits into the memory even if it is as long as it can be for its shorthand", () => {
  const shorthand = Array(100_000).fill("1p1q1sf").join("i");
  const json = expander.expand(shorthand, { opening: "[", closing: "]" });
  const order = { id: 1, petId: 1, quantity: 1, complete: false };
  expect(new TextDecoder().decode(json) === JSON.stringify(Array(100_000).fill(order))).toBe(true);
});
