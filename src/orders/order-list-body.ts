import type { OrderPage, OrderPages } from "./order-pages.ts";

/**
 * The list of orders as a JSON array: text where it is a single page, otherwise a stream that holds
 * one page and reads the next while that one is sent.
 *
 * @param onError is told why a stream broke off.
 */
export function orderListBody(
  pages: OrderPages,
  first: OrderPage,
  onError: (error: unknown) => void,
): string | ReadableStream<Uint8Array> {
  if (first.nextId === null) return `[${first.json}]`;
  const text = orderListText(pages, first);
  const encoder = new TextEncoder();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = await text.next();
        if (done) controller.close();
        else controller.enqueue(encoder.encode(value));
      } catch (error) {
        onError(error);
        controller.error(error);
      }
    },
    async cancel() {
      await text.return(undefined);
    },
  });
}

/** The closing bracket comes only after every page: a list that breaks off must not parse. */
async function* orderListText(
  pages: OrderPages,
  first: OrderPage,
): AsyncGenerator<string, undefined> {
  let page = first;
  let opening = "[";
  while (page.nextId !== null) {
    const upcoming = pages.next(page.nextId);
    upcoming.catch(() => undefined); // A failure is met below, unless the reader has left by then.
    yield opening + page.json;
    opening = ",";
    page = await upcoming;
  }
  yield page.json === "" ? "]" : `,${page.json}]`;
}
