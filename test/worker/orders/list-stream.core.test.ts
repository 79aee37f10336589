import { beforeEach, expect, test, vi } from "vitest";
import { pause } from "../../../src/worker/deadline.ts";
import type { Segment } from "../../../src/worker/orders/list-database.ts";
import { ListPlaces } from "../../../src/worker/orders/list-places.ts";
import { LIST_SIZES } from "../../../src/worker/orders/list-sizes.ts";
import { ListStream } from "../../../src/worker/orders/list-stream.ts";
import { SegmentMemory } from "../../../src/worker/orders/segment-memory.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"], now: 0 }));

const BYTES = 10;
const READ_MS = 10_000;
const QUERY_MS = 1_000;
const SIZES = { ...LIST_SIZES, groupBytes: 2 * BYTES, groupsAhead: 2, placeBytes: 10 * BYTES };

const idle = () => new Promise((resolve) => void setImmediate(resolve));
const jsonOf = (id: string) => new TextEncoder().encode(`,{"id":${id}}`.slice(0, BYTES));

/** A store of segments with one order each. Every query takes a second, or fails late. */
function storeOf({ count = 12, maxQueries = SIZES.maxQueries, memoryBytes = 1_000 } = {}) {
  const places = new ListPlaces(SIZES);
  const memory = new SegmentMemory(() => memoryBytes, READ_MS);
  const ids = UP_TO(count).map(String);
  const segments = ids.map((id) => ({ firstId: id, lastId: id, version: id, bytes: BYTES }));
  memory.newest = new Set(ids);
  const queried: string[] = [];
  const world = { segments, places, memory, queried, lost: [] as string[], hangs: "", open };

  function open() {
    const read = async (group: readonly Segment[]) => {
      const versions = group.map(({ version }) => version);
      queried.push(...versions);
      // The platform has ended its request.
      const isLate = versions.includes(world.hangs);
      await pause(isLate ? READ_MS + QUERY_MS / 2 : QUERY_MS);
      if (isLate) throw new Error("late");
      if (versions.includes(world.lost[0]!)) throw new Error(`lost: ${world.lost.shift()}`);
      return new Map(versions.map((version) => [version, jsonOf(version)]));
    };
    const sizes = { ...SIZES, maxQueries };
    const list = new ListStream({ keyId: "key", segments, memory, places, sizes, read });
    const end = vi.fn();
    const reader = list.start(end).getReader();
    /** Takes pieces until the end of a segment's orders, or of the list. */
    const next = async () => {
      let text = "";
      while (!/[}\]]$/.test(text)) {
        const piece = reader.read();
        while ((await Promise.race([piece, idle().then(() => null)])) === null)
          await vi.advanceTimersByTimeAsync(QUERY_MS / 2);
        text += new TextDecoder().decode((await piece).value);
      }
      return text;
    };
    return { list, reader, next, end };
  }
  return world;
}

/** Takes a list, and looks after each segment, with the number of orders until then. */
async function take({ next }: { next: () => Promise<string> }, look = (_sent: number) => {}) {
  let text = "";
  while (!text.endsWith("]")) {
    text += await next();
    look(text.split("}").length - 1);
  }
  return (JSON.parse(text) as { id: number }[]).map(({ id }) => id);
}

const UP_TO = (count: number) => Array.from({ length: count }, (_, n) => n);

test("a list begins after one query, reads two groups ahead into memory, and holds nothing; the next one reads nothing", async () => {
  const store = storeOf({ count: 10 });
  // A segment without orders is left out.
  store.memory.add(new Map([["0", new Uint8Array()]]));
  const client = store.open();
  const ids = await take(client, (sent) => {
    if (sent === 1) expect(store.queried).toEqual(["1", "2"]);
    expect(store.queried.length - sent).toBeLessThanOrEqual(2 * 2 + 1);
    expect(client.list.alone).toBe(0);
  });
  expect(ids).toEqual(UP_TO(10).slice(1));
  // A segment of a newer list takes no more room than it needs, and one of an older list none.
  store.memory.newest = new Set(["newer"]);
  for (const [version, bytes] of [["newer", 1] as const, ["older", 990] as const])
    store.memory.add(new Map([[version, new Uint8Array(bytes)]]));
  expect(await take(store.open())).toEqual(UP_TO(10).slice(1));
  expect(store.queried).toEqual(UP_TO(10).slice(1).map(String));
  expect(store.memory.bytes).toBe(9 * '{"id":0},'.length + 1);
});

test("lists that need a segment at the same time read it once, and again if that query failed or its request was ended", async () => {
  const store = storeOf({ count: 6, memoryBytes: 6 * BYTES });
  Object.assign(store, { hangs: "2", lost: ["4"] });
  const ended = store.open();
  await ended.next();
  await ended.next();
  expect(store.queried).toEqual(["0", "1", "2", "3", "4", "5"]);
  store.hangs = "";
  await vi.advanceTimersByTimeAsync(QUERY_MS);
  const startsMs = [0, 0, 0, 0, READ_MS - 0.25 * QUERY_MS];
  const lists = startsMs.map((ms) => pause(ms).then(() => take(store.open())));
  await vi.advanceTimersByTimeAsync(0);
  expect(await Promise.all(lists)).toEqual(Array(5).fill(UP_TO(6)));
  expect(store.queried.slice(6)).toEqual(["4", "5", "2", "3"]);
  expect(Date.now()).toBeLessThan(READ_MS + 6 * QUERY_MS);
});

test.each([
  ["reads a group at a time", 0],
  ["fills the memory before", 4],
])("a list beyond the memory has a place and %s, nothing twice", async (_, inMemory) => {
  const store = storeOf({ memoryBytes: inMemory * BYTES });
  const client = store.open();
  let most = 0;
  const ids = await take(client, () => void (most = Math.max(most, client.list.alone / BYTES)));
  expect(ids).toEqual(UP_TO(12));
  expect(store.queried).toEqual(UP_TO(12).map(String));
  expect(most).toBeGreaterThan(1);
  expect(most).toBeLessThanOrEqual(2);
  expect(store.places.held).toBe(0);
});

test("a list produces a piece only when its client asks, moves then and when the piece is ready, and fails as a lost connection", async () => {
  const store = storeOf();
  Object.assign(store, { lost: ["3", "3"] });
  const { list, reader, next, end } = store.open();
  await idle();
  expect(store.queried).toEqual([]);
  vi.setSystemTime(Date.now() + 5_000);
  const askedMs = Date.now();
  const piece = next();
  expect(list.takenMs).toBe(askedMs);
  expect(await piece).toBe('[{"id":0}');
  expect(list.takenMs).toBe(askedMs + QUERY_MS);
  await next();
  // workerd reports a stream's error as an uncaught exception, unless the error is retryable.
  const failing = (async () => {
    while (!(await reader.read()).done);
  })();
  failing.catch(() => undefined);
  await vi.advanceTimersByTimeAsync(5 * QUERY_MS);
  await expect(failing).rejects.toMatchObject({ retryable: true });
  expect(end).toHaveBeenCalledOnce();
  expect(store.places.held).toBe(0);
});

test("a list of many segments reads several in a query, and frees them when its client leaves, also during a query", async () => {
  const store = storeOf({ count: 4, maxQueries: 2, memoryBytes: 0 });
  store.segments.at(-1)!.bytes = BYTES - 1;
  for (const isReading of [false, true]) {
    const { list, reader, next, end } = store.open();
    if (isReading) void reader.read();
    else await next();
    await idle();
    expect(store.places.held).toBe(2 * BYTES);
    await reader.cancel();
    await vi.advanceTimersByTimeAsync(QUERY_MS);
    expect([store.places.held, list.alone]).toStrictEqual([0, 0]);
    expect(end.mock.calls).toEqual([[undefined]]);
  }
  expect(store.queried).toEqual(["0", "1", "0", "1"]);
});
