import type { OrderExpander } from "./order-expander.ts";
import { sliceEnd } from "./order-json.ts";

/** Thrown if the client reads nothing of a list for too long. */
export class StalledReaderError extends Error {}

const NOTHING = new Uint8Array();

interface StreamOptions {
  readonly stallMs: number;
  /** Called when the client requests a piece, and when the piece is ready. */
  readonly onProgress: () => void;
  /** Called once, at the end; without an error if all was sent or the client disconnected. */
  readonly onEnd: (error?: unknown) => void;
}

/**
 * Returns a stream of the pieces that a generator yields and returns. Produces each piece only when
 * the client reads it, so only one piece of JSON is in memory.
 */
export function listStream(
  pieces: AsyncGenerator<Uint8Array, Uint8Array>,
  { stallMs, onProgress, onEnd }: StreamOptions,
): ReadableStream<Uint8Array> {
  let stopTimer = () => {};
  let hasLeft = false;
  const source: UnderlyingSource<Uint8Array> = {
    async pull(controller) {
      const fail = (cause: unknown) => {
        // `retryable` makes workerd treat the error as a lost connection. workerd reports every other
        // error of a body as an uncaught exception, in addition to the list's own log event.
        const error = new Error("The list was cut off.", { cause });
        controller.error(Object.assign(error, { retryable: true }));
        onEnd(cause);
      };
      stopTimer();
      onProgress();
      try {
        const { done, value } = await pieces.next();
        if (hasLeft) return;
        controller.enqueue(value);
        onProgress();
        if (done) {
          controller.close();
          onEnd();
          return;
        }
      } catch (error) {
        if (!hasLeft) fail(error);
        return;
      }
      const timer = setTimeout(() => {
        const seconds = stallMs / 1_000;
        fail(new StalledReaderError(`The client took nothing of the list for ${seconds} seconds.`));
        void pieces.return(NOTHING);
      }, stallMs);
      stopTimer = () => clearTimeout(timer);
    },
    async cancel() {
      hasLeft = true;
      stopTimer();
      onEnd();
      await pieces.return(NOTHING);
    },
  };
  return new ReadableStream(source, { highWaterMark: 0 });
}

/**
 * Yields the list of orders as a JSON array in pieces, and returns the last piece: the closing
 * bracket. So a list that is cut off is never valid JSON.
 *
 * @param texts the orders of each segment in shorthand, in ascending order of ids.
 */
export async function* listText(
  texts: AsyncIterable<string>,
  expander: OrderExpander,
  sliceBytes: number,
): AsyncGenerator<Uint8Array, Uint8Array> {
  let opening: "[" | "," = "[";
  for await (const text of texts) {
    for (let start = 0; start < text.length;) {
      const end = sliceEnd(text, start, sliceBytes);
      yield expander.expand(text.slice(start, end), { opening, closing: "" });
      opening = ",";
      start = end + 1;
    }
  }
  return new TextEncoder().encode(opening === "[" ? "[]" : "]");
}
