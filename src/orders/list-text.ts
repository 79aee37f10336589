import type { Segment } from "./manifest.ts";
import type { OrderExpander } from "./order-expander.ts";
import type { Shorthand } from "./shorthand.ts";

/** Returns the orders of segments, in the same order. */
export interface SegmentReader {
  read(segments: readonly Segment[]): Promise<Shorthand[]>;
}

/**
 * The list of orders as a JSON array in pieces. Reads the next group of segments while the one
 * before is sent. The closing bracket comes only after every order, so that a list that breaks off
 * does not parse, however the connection ends.
 */
export async function* listText(
  segments: readonly Segment[],
  reader: SegmentReader,
  expander: OrderExpander,
  { groupSegments, sliceBytes }: { readonly groupSegments: number; readonly sliceBytes: number },
): AsyncGenerator<Uint8Array, void> {
  // The first segment alone, for an early first byte.
  const groups = [segments.slice(0, 1)];
  for (let start = 1; start < segments.length; start += groupSegments) {
    groups.push(segments.slice(start, start + groupSegments));
  }
  let opening: "[" | "," = "[";
  let upcoming = reader.read(groups[0] ?? []);
  for (const next of [...groups.slice(1), null]) {
    const shorthands = await upcoming;
    if (next !== null) {
      upcoming = pause().then(() => reader.read(next));
      upcoming.catch(() => undefined); // Thrown when awaited, unless the reader leaves first.
    }
    for (let shorthand = shorthands.shift(); shorthand; shorthand = shorthands.shift()) {
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

/** A local D1 runs on the same thread: queued output is flushed first, and other requests continue. */
function pause(): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, 0));
}
