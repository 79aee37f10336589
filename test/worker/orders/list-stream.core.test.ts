import { afterEach, beforeEach, expect, test, vi } from "vitest";
import {
  listStream,
  listText,
  StalledReaderError,
} from "../../../src/worker/orders/list-stream.ts";
import { expander } from "./isolates/world.ts";

const STALL_MS = 60_000;

let produced: number;
let progress: number;
let ends: unknown[];
let hasClosed: boolean;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  produced = progress = 0;
  hasClosed = false;
  ends = [];
});
afterEach(async () => {
  // No timer may be left that ends the list a second time.
  const { length } = ends;
  await vi.advanceTimersByTimeAsync(2 * STALL_MS);
  expect(ends).toHaveLength(length);
  vi.useRealTimers();
});

/** Reads a list of `count` pieces. The last piece waits for `last`, and fails if `last` rejects. */
function read(count: number, last = Promise.resolve()): ReadableStreamDefaultReader<Uint8Array> {
  async function* pieces(): AsyncGenerator<Uint8Array, Uint8Array> {
    try {
      for (let piece = 1; piece < count; piece += 1) {
        produced = piece;
        yield Uint8Array.of(piece);
      }
      await last;
      return Uint8Array.of(count);
    } finally {
      hasClosed = true;
    }
  }
  const onEnd = (...error: unknown[]) => void ends.push(error);
  const onProgress = () => void (progress += 1);
  return listStream(pieces(), { stallMs: STALL_MS, onProgress, onEnd }).getReader();
}

test("produces a piece only when the client reads, and calls onEnd after the last piece", async () => {
  const reader = read(2);
  await vi.advanceTimersByTimeAsync(STALL_MS - 1);
  expect(produced).toBe(0);
  expect((await reader.read()).value).toStrictEqual(Uint8Array.of(1));
  expect(ends).toStrictEqual([]);
  await reader.read();
  expect((await reader.read()).done).toBe(true);
  expect(ends).toStrictEqual([[]]);
  expect(progress).toBe(4);
});

test("fails with the error of its pieces", async () => {
  const error = new Error("lost");
  const reader = read(2, Promise.reject(error));
  await reader.read();
  // workerd reports a stream's error as an uncaught exception, unless the error is retryable.
  await expect(reader.read()).rejects.toMatchObject({ cause: error, retryable: true });
  expect(ends).toStrictEqual([[error]]);
});

test("fails if the client reads nothing for a minute, and not earlier", async () => {
  const reader = read(5);
  for (let piece = 1; piece <= 3; piece += 1) {
    expect((await reader.read()).value).toStrictEqual(Uint8Array.of(piece));
    await vi.advanceTimersByTimeAsync(STALL_MS - 1);
  }
  expect(ends).toStrictEqual([]);
  await vi.advanceTimersByTimeAsync(1);
  const stalled = "The client took nothing of the list for 60 seconds.";
  expect(ends).toStrictEqual([[new StalledReaderError(stalled)]]);
  await expect(reader.read()).rejects.toMatchObject({ cause: expect.any(StalledReaderError) });
  expect([produced, hasClosed]).toStrictEqual([3, true]);
});

test.each([
  ["before the end", 1, () => undefined],
  ["before an error", 1, () => Promise.reject(new Error("lost"))],
  ["between two pieces", 2, () => undefined],
])("calls onEnd without an error if the client disconnects %s", async (_, count, end) => {
  const last = Promise.withResolvers<void>();
  const reader = read(count, last.promise);
  const reading = reader.read();
  await vi.advanceTimersByTimeAsync(1);
  const leaving = reader.cancel();
  last.resolve(end());
  await Promise.all([reading, leaving]);
  expect(ends).toStrictEqual([[]]);
  expect(hasClosed).toBe(true);
});

test("the JSON fits into the memory even if it is as long as it can be for its shorthand", () => {
  const json = expander.expand(Array(100_000).fill("1p1q1sf").join("i"), {
    opening: "[",
    closing: "]",
  });
  const order = { id: 1, petId: 1, quantity: 1, complete: false };
  expect(new TextDecoder().decode(json) === JSON.stringify(Array(100_000).fill(order))).toBe(true);
});

test("a piece of a list has complete orders, and at least as much shorthand as it should", async () => {
  async function* texts() {
    yield* ["1pqsni2pqsni3pqsn", "", "4pqsn"];
  }
  const pieces: string[] = [];
  for await (const piece of listText(texts(), expander, 6))
    pieces.push(new TextDecoder().decode(piece));
  expect(pieces).toStrictEqual(['[{"id":1},{"id":2}', ',{"id":3}', ',{"id":4}']);
});
