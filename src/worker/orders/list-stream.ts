import type { OrderExpander } from "./order-expander.ts";
import type { Shorthand } from "./shorthand.ts";

/** Thrown if the client reads nothing of a list for too long. */
export class StalledReaderError extends Error {
  override readonly name = "StalledReaderError";

  constructor(stallMs: number) {
    super(`The client took nothing of the list for ${stallMs / 1_000} seconds.`);
  }
}

interface StreamOptions {
  /** The stream fails if the client reads nothing for this long. */
  readonly stallMs: number;
  /** Called when the client requests the next piece. */
  readonly onProgress: () => void;
  /**
   * Called once, when the stream ends. `error` is undefined if the whole list was sent or the
   * client disconnected.
   */
  readonly onEnd: (error?: unknown) => void;
}

/**
 * Returns a stream that produces each piece only when the client reads it. So a slow client keeps
 * only one piece in memory. The drawback: the next piece is not ready when the client requests it.
 */
export function listStream(
  pieces: AsyncGenerator<Uint8Array, void>,
  { stallMs, onProgress, onEnd }: StreamOptions,
): ReadableStream<Uint8Array> {
  let stopTimer = () => {};
  let hasLeft = false;
  const source: UnderlyingSource<Uint8Array> = {
    async pull(controller) {
      stopTimer();
      onProgress();
      try {
        const { done, value } = await pieces.next();
        if (hasLeft) return;
        if (done) {
          controller.close();
          onEnd();
          return;
        }
        controller.enqueue(value);
      } catch (error) {
        if (hasLeft) return;
        controller.error(error);
        onEnd(error);
        return;
      }
      const timer = setTimeout(() => {
        const error = new StalledReaderError(stallMs);
        controller.error(error);
        onEnd(error);
        void pieces.return();
      }, stallMs);
      stopTimer = () => clearTimeout(timer);
    },
    async cancel() {
      hasLeft = true;
      stopTimer();
      onEnd();
      await pieces.return();
    },
  };
  return new ReadableStream(source, { highWaterMark: 0 });
}

/**
 * Yields the list of orders as a JSON array in pieces. The last piece is the closing bracket. So a
 * list that is cut off is never valid JSON.
 *
 * @param groups the orders of the segments, in ascending order of ids.
 * @param sliceBytes the bytes of shorthand that are expanded to one piece.
 */
export async function* listText(
  groups: AsyncIterable<readonly Shorthand[]>,
  expander: OrderExpander,
  sliceBytes: number,
): AsyncGenerator<Uint8Array, void> {
  let opening: "[" | "," = "[";
  for await (const shorthands of groups) {
    for (const shorthand of shorthands) {
      for (let start = 0; start < shorthand.length;) {
        const end = shorthand.sliceEnd(start, sliceBytes);
        yield expander.expand(shorthand, start, end, { opening, closing: "" });
        opening = ",";
        start = end + 1;
      }
    }
  }
  yield new TextEncoder().encode(opening === "[" ? "[]" : "]");
}
