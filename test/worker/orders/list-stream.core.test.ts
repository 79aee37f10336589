import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { listStream, StalledReaderError } from "../../../src/worker/orders/list-stream.ts";

const STALL_MS = 60_000;

let produced: number;
let ends: unknown[];
let progress: number;
let hasClosed: boolean;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  produced = 0;
  progress = 0;
  hasClosed = false;
  ends = [];
});
afterEach(() => void vi.useRealTimers());

async function* pieces(count: number, error?: Error): AsyncGenerator<Uint8Array, Uint8Array> {
  try {
    for (let piece = 1; piece < count; piece += 1) {
      produced = piece;
      yield Uint8Array.of(piece);
    }
    if (error !== undefined) throw error;
    produced = count;
    return Uint8Array.of(count);
  } finally {
    hasClosed = true;
  }
}

function read(
  source: AsyncGenerator<Uint8Array, Uint8Array>,
): ReadableStreamDefaultReader<Uint8Array> {
  const onEnd = (...error: unknown[]) => void ends.push(error);
  const onProgress = () => void (progress += 1);
  return listStream(source, { stallMs: STALL_MS, onProgress, onEnd }).getReader();
}

test("produces a piece only when the client reads", async () => {
  const reader = read(pieces(3));
  await vi.advanceTimersByTimeAsync(STALL_MS - 1);
  expect(produced).toBe(0);
  expect((await reader.read()).value).toStrictEqual(Uint8Array.of(1));
  await vi.advanceTimersByTimeAsync(STALL_MS - 1);
  expect(produced).toBe(1);
});

test("calls onEnd once, when the client has read the last piece", async () => {
  const reader = read(pieces(2));
  await reader.read();
  expect(ends).toStrictEqual([]);
  await reader.read();
  expect(ends).toStrictEqual([[]]);
  expect((await reader.read()).done).toBe(true);
  await vi.advanceTimersByTimeAsync(2 * STALL_MS);
  expect(ends).toStrictEqual([[]]);
  expect(progress).toBe(4);
});

test("fails with the error of its pieces", async () => {
  const error = new Error("lost");
  const reader = read(pieces(2, error));
  await reader.read();
  // workerd reports a stream's error as an uncaught exception, unless the error is retryable.
  await expect(reader.read()).rejects.toMatchObject({ cause: error, retryable: true });
  await vi.advanceTimersByTimeAsync(2 * STALL_MS);
  expect(ends).toStrictEqual([[error]]);
});

test("fails if the client reads nothing for a minute, and not earlier", async () => {
  const reader = read(pieces(5));
  for (let piece = 1; piece <= 3; piece += 1) {
    expect((await reader.read()).value).toStrictEqual(Uint8Array.of(piece));
    await vi.advanceTimersByTimeAsync(STALL_MS - 1);
  }
  expect(ends).toStrictEqual([]);
  await vi.advanceTimersByTimeAsync(1);
  expect(ends).toStrictEqual([[expect.any(StalledReaderError)]]);
  await expect(reader.read()).rejects.toMatchObject({ cause: expect.any(StalledReaderError) });
  expect(produced).toBe(3);
  expect(hasClosed).toBe(true);
});

test("calls onEnd without an error when the client disconnects", async () => {
  const reader = read(pieces(5));
  await reader.read();
  await reader.cancel();
  await vi.advanceTimersByTimeAsync(2 * STALL_MS);
  expect(ends).toStrictEqual([[]]);
  expect(produced).toBe(1);
});

test.each(["piece", "end", "error"] as const)(
  "calls onEnd once and without an error if the client disconnects before the next %s",
  async (what) => {
    const coming = Promise.withResolvers<void>();
    async function* slow(): AsyncGenerator<Uint8Array, Uint8Array> {
      await coming.promise;
      if (what === "error") throw new Error("lost");
      if (what === "piece") yield Uint8Array.of(1);
      return Uint8Array.of(2);
    }
    const reader = read(slow());
    const reading = reader.read();
    await vi.advanceTimersByTimeAsync(1);
    const leaving = reader.cancel();
    coming.resolve();
    await Promise.all([reading, leaving]);
    await vi.advanceTimersByTimeAsync(2 * STALL_MS);
    expect(ends).toStrictEqual([[]]);
  },
);
