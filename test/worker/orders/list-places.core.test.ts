import { beforeEach, expect, test, vi } from "vitest";
import { ListPlaces } from "../../../src/worker/orders/list-places.ts";
import { LIST_SIZES } from "../../../src/worker/orders/list-sizes.ts";

const SIZES = { ...LIST_SIZES, placeBytes: 4 };

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"] }));

/** A list whose client takes nothing. */
function listOf(keyId: string, placeBytes = 1, spare = 0) {
  const list = {
    keyId,
    placeBytes,
    alone: placeBytes + spare,
    takenMs: 0,
    isCut: false,
    forgetSpare: () => void (list.alone = placeBytes),
    cutOff: () => void (list.isCut = true),
  };
  return list;
}

/**
 * Lists with one place each as `key+spare:stalled seconds`, or `key-:…` if they are sent from memory; the
 * key of another list and its bytes, if they are not one; and the seconds after which that list has a
 * place, `null` if it is refused. Then the lists that are cut off for it.
 */
test.each<[string, string, string, number | null, number[]]>([
  ["nobody while there is room", "a+1:0 a:0", "a", 0, []],
  ["nobody, if one forgets what it has read beyond its place", "a+1:0 a:0 b:0", "c", 0, []],
  ["nobody for a further list of a key, if all are read", "a:1 a:2 a:3 b:4", "b", null, []],
  ["nobody, if each key has one list and reads it", "a:0 b:49 c:49 d:49", "e", null, []],
  ["nobody in vain", "a:60 b:0 c:0 d:0", "a2", null, []],
  ["nobody who holds nothing", "a-:9 a:1 a:2 b:0 c:0", "d", 2, [2]],
  ["the slowest list of the key that has most", "a:9 b:2 b:1 b:3", "c", 2, [3]],
  ["the slowest of all, if two keys have as many", "a:1 a:3 b:2 b:4", "c", 2, [3]],
  ["a stalled list at once, if its key has another", "a:1 a:60 b:90 c:1", "a", 0, [1]],
  ["a key's only list, if it is stalled", "a:60 b:90 c:0 d:0", "e", 2, [1]],
  ["a list that is read before a key's only one that is stalled", "a:90 b:0 b:1 c:0", "e", 2, [2]],
  ["its own stalled list", "a:60 b:0 c:0 d:0", "a", 0, [0]],
  ["another key's, if its own is stalled but holds nothing", "a-:60 b:0 b:1 c:0 c:0", "a", 2, [2]],
  ["nobody whose clock was set back", "a:-120 b:-90 c:-90 d:-90", "e", null, []],
])("a list that needs a place cuts off %s", async (_, listed, [key, bytes], seconds, cut) => {
  const places = new ListPlaces(SIZES);
  const parts = [...listed.matchAll(/(\w)(-?)\+?(\d?):(-?\d+)/g)];
  const lists = parts.map(([, one, none, spare, stalled]) => {
    const list = listOf(one!, none ? 0 : 1, Number(spare));
    if (none) places.begin(list);
    else void places.wait(list);
    list.takenMs -= Number(stalled) * 1_000;
    return list;
  });
  const startMs = Date.now();
  const list = listOf(key!, Number(bytes ?? 1));
  const waiting = places.wait(list).then((hasPlace) => [hasPlace, Date.now()] as const);
  expect(places.allowsSpare(0)).toBe(seconds === 0);
  await vi.advanceTimersByTimeAsync(SIZES.lineMs);
  expect(await Promise.race([waiting, Promise.resolve("waits")])).toStrictEqual([
    seconds !== null,
    startMs + (seconds ?? 10) * 1_000,
  ]);
  expect(lists.flatMap(({ isCut }, at) => (isCut ? [at] : []))).toStrictEqual(cut);
  // Nobody forgets more than is needed.
  expect(places.held).toBe(SIZES.placeBytes);
  // Who was refused receives no place later.
  places.end(lists[0]!);
  expect(places.hasPlace(list)).toBe(seconds !== null);
  // Also after its clock was set back, no list keeps its place for longer than the stall time.
  await vi.advanceTimersByTimeAsync(SIZES.stallMs);
  const large = places.wait(listOf("z", SIZES.placeBytes));
  await vi.advanceTimersByTimeAsync(SIZES.lineMs);
  expect(await Promise.race([large, Promise.resolve("waits")])).toBe(true);
});

test("a key without a list comes first, as does a list under way; a request that has ended receives no place", async () => {
  const places = new ListPlaces(SIZES);
  const endMs = Date.now() + SIZES.stallMs;
  const takenAt = (takenMs: () => number, list: ReturnType<typeof listOf>) =>
    Object.defineProperty(list, "takenMs", { get: takenMs, set() {} });
  // One client takes pieces all the time. Of another, the request does not run any more.
  const holder = takenAt(Date.now, listOf("b", 4));
  const dead = takenAt(() => endMs, listOf("d"));
  const [underWay, further, left, other] = [listOf("a"), listOf("a"), listOf("c"), listOf("e", 3)];
  void places.wait(holder);
  underWay.alone = 0;
  places.begin(underWay);
  void places.wait(underWay);
  await vi.advanceTimersByTimeAsync(SIZES.stallMs);
  places.begin(left);
  const [leaves] = [left, further, dead, other].map((list) => places.wait(list));
  places.end(left);
  await vi.advanceTimersByTimeAsync(4_000);
  places.end(holder);
  const hasPlace = [underWay, other, further, left, dead].map((list) => places.hasPlace(list));
  expect(hasPlace).toEqual([true, true, false, false, false]);
  expect(await leaves).toBe(false);
});
