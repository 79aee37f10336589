import type { OrderPage, OrderPages } from "./order-pages.ts";

/** So many pages are read in a row: some 50 ms where the database is local. */
const PAGES_IN_A_ROW = 8;

/** How a list is sent, and who is told of it. */
export interface StreamOptions {
  /** Breaks the list off where its version changes, so that what is whole is also of one moment. */
  readonly oneVersionOnly?: boolean;
  /** The list was sent whole. */
  readonly onEnd?: (isOneVersion: boolean) => void;
  /** The list broke off, and what was sent of it does not parse. */
  readonly onBroken?: (error: unknown) => void;
}

/**
 * The list of orders as a JSON array, page by page; each next page is read while the one before it
 * is sent. The closing bracket comes only after every page, so that a list that breaks off does not
 * parse, however the connection ends.
 */
export function orderListStream(
  pages: OrderPages,
  first: OrderPage,
  options: StreamOptions,
): ReadableStream<Uint8Array> {
  const text = orderListText(pages, first, options.oneVersionOnly ?? false);
  const source: UnderlyingSource<Uint8Array> = {
    async pull(controller) {
      try {
        const { done, value } = await text.next();
        if (done) {
          controller.close();
          options.onEnd?.(value);
          return;
        }
        controller.enqueue(value);
      } catch (error) {
        controller.error(error);
        options.onBroken?.(error);
      }
    },
    async cancel() {
      await text.return(false);
    },
  };
  // Nothing is read on before somebody wants it: the answer may yet be a refusal.
  return new ReadableStream(source, { highWaterMark: 0 });
}

/** @returns (when done) whether the list is of one version throughout. */
async function* orderListText(
  pages: OrderPages,
  first: OrderPage,
  oneVersionOnly: boolean,
): AsyncGenerator<Uint8Array, boolean> {
  let page = first;
  let isOneVersion = true;
  for (let index = 0; page.nextId !== null; index += 1) {
    const isPause = index % PAGES_IN_A_ROW === 0;
    const upcoming = nextPage(pages, page.nextId, isPause);
    upcoming.catch(() => undefined); // A failure is met below, unless the reader has left by then.
    yield page.json;
    page = await upcoming;
    isOneVersion &&= page.version === first.version;
    if (oneVersionOnly && !isOneVersion) throw new Error("The list changed while it was read.");
  }
  yield page.json;
  return isOneVersion;
}

/**
 * A local database shares our thread. A pause lets what is to be sent leave first, the beginning of
 * the list above all, and gives other requests a turn.
 */
async function nextPage(pages: OrderPages, nextId: bigint, isPause: boolean): Promise<OrderPage> {
  if (isPause) await scheduler.wait(0);
  return pages.next(nextId);
}
