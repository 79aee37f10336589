import type { OrderPage, OrderPages } from "./order-pages.ts";

/**
 * The list of orders as JSON text, page by page; each next page is read while the one before it is
 * sent. The closing bracket comes only after every page: a list that breaks off must not parse.
 *
 * @returns (when done) whether the list is of one version throughout.
 */
export async function* orderListText(
  pages: OrderPages,
  first: OrderPage,
): AsyncGenerator<string, boolean> {
  let page = first;
  let isOneVersion = true;
  let opening = "[";
  while (page.nextId !== null) {
    const upcoming = pages.next(page.nextId);
    upcoming.catch(() => undefined); // A failure is met below, unless the reader has left by then.
    yield opening + page.json;
    opening = page.json === "" ? opening : ",";
    page = await upcoming;
    isOneVersion &&= page.version === first.version;
  }
  yield page.json === "" && opening === "," ? "]" : `${opening}${page.json}]`;
  return isOneVersion;
}
