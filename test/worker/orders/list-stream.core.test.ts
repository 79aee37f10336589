import { expect, test, vi } from "vitest";
import { listStream } from "../../../src/worker/orders/list-stream.ts";
import { expander } from "./isolates/expander.ts";

/** Streams a list of `count` pieces. The last piece waits for `last`, and fails if it rejects. */
function stream(count: number, last = Promise.resolve()) {
  const cutOff = Promise.withResolvers<Error>();
  const seen = { produced: 0, moves: 0, hasClosed: false, ends: [] as unknown[][] };
  async function* pieces(): AsyncGenerator<Uint8Array, Uint8Array> {
    try {
      for (seen.produced = 1; seen.produced < count; seen.produced += 1)
        yield Uint8Array.of(seen.produced);
      await last;
      return Uint8Array.of(count);
    } finally {
      seen.hasClosed = true;
    }
  }
  const body = listStream(pieces(), {
    onMove: () => void (seen.moves += 1),
    cutOff: cutOff.promise,
    onEnd: (error) => void seen.ends.push([error]),
  });
  return { reader: body.getReader(), seen, cutOff: cutOff.resolve };
}

const turn = () => new Promise((resolve) => void setTimeout(resolve));

test("produces a piece only when the client reads, and calls onEnd after the last piece", async () => {
  const { reader, seen } = stream(2);
  await turn();
  expect(seen.produced).toBe(0);
  expect((await reader.read()).value).toStrictEqual(Uint8Array.of(1));
  expect(seen.ends).toStrictEqual([]);
  await reader.read();
  expect((await reader.read()).done).toBe(true);
  expect(seen).toMatchObject({ moves: 4, ends: [[undefined]] });
});

test("fails with the error of its pieces", async () => {
  const error = new Error("lost");
  const { reader, seen } = stream(2, Promise.reject(error));
  await reader.read();
  // workerd reports a stream's error as an uncaught exception, unless the error is retryable.
  await expect(reader.read()).rejects.toMatchObject({ cause: error, retryable: true });
  expect(seen.ends).toStrictEqual([[error]]);
});

test("No reader is cut off because it is slow: no timer ends a list, only another list that needs the place", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"] });
  const { reader, seen, cutOff } = stream(9);
  await reader.read();
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
  const error = new Error("needed");
  cutOff(error);
  await expect(reader.read()).rejects.toMatchObject({ cause: error });
  expect(seen).toMatchObject({ hasClosed: true, ends: [[error]] });
});

test("the JSON fits into the memory even if it is as long as it can be for its shorthand", () => {
  const json = expander.expand(Array(100_000).fill("1p1q1sf").join("i"), {
    opening: "[",
    closing: "]",
  });
  const order = { id: 1, petId: 1, quantity: 1, complete: false };
  expect(new TextDecoder().decode(json) === JSON.stringify(Array(100_000).fill(order))).toBe(true);
});
