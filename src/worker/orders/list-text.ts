import type { OrderExpander } from "./order-expander.ts";
import type { Shorthand } from "./shorthand.ts";

/**
 * The list of orders as a JSON array in pieces. The closing bracket comes only after every order, so
 * that a list that breaks off does not parse, however the connection ends.
 *
 * @param groups the orders of segments, in order.
 * @param sliceBytes the shorthand that is expanded at once.
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
