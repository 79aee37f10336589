import { cachedOrderList, dropCachedOrderList, OrderListFill } from "./order-list-cache.ts";
import { orderListText } from "./order-list-text.ts";
import type { OrderPage, OrderPages } from "./order-pages.ts";

/** The list of orders at one version. */
export interface OrderList {
  readonly version: string;
  /** A JSON array; `null` where the caller knows this version. */
  readonly body: string | ReadableStream<Uint8Array> | null;
}

/** What a reader of lists needs of the request that it reads for. */
export interface ReadContext {
  /** Versions that the caller has. */
  readonly knownVersions: readonly string[];
  /** Is told why a list broke off midway. */
  readonly onBroken: (error: unknown) => void;
  readonly waitUntil: (promise: Promise<unknown>) => void;
}

/**
 * Reads the list of orders at the cost of what changed: a list of one page stays in the isolate's
 * memory, a longer one in the data centre's cache, and either is used for as long as its version
 * stands in the database.
 */
export class OrderLists {
  #short: { readonly version: string; readonly json: string } | null = null;
  #cachedVersion: string | null = null;

  /** @throws {DatabaseUnavailableError} */
  async read(pages: OrderPages, context: ReadContext): Promise<OrderList> {
    const held = [this.#short?.version, this.#cachedVersion].filter((version) => version != null);
    const first = await pages.first([...context.knownVersions, ...held]);
    const { version } = first;
    if (context.knownVersions.includes(version)) return { version, body: null };
    if (this.#short?.version === version) return { version, body: this.#short.json };

    const isLong = this.#cachedVersion === version || first.nextId !== null;
    const cached = isLong ? await cachedOrderList(version) : null;
    if (cached !== null) {
      this.#cachedVersion = version;
      return { version, body: cached };
    }
    if (this.#cachedVersion !== version) return this.#build(pages, first, context);
    this.#cachedVersion = null; // The cache has let it go, and its page has not been read.
    return this.#build(pages, await pages.first(), context);
  }

  #build(pages: OrderPages, first: OrderPage, context: ReadContext): OrderList {
    const { version } = first;
    if (first.nextId === null) {
      const json = `[${first.json}]`;
      this.#short = { version, json };
      return { version, body: json };
    }
    this.#short = null;
    return { version, body: this.#stream(pages, first, context) };
  }

  /** Sends the list and keeps it in the cache on the way, holding no more than two pages. */
  #stream(pages: OrderPages, first: OrderPage, context: ReadContext): ReadableStream<Uint8Array> {
    const text = orderListText(pages, first);
    const fill = new OrderListFill(first.version);
    const encoder = new TextEncoder();
    return new ReadableStream<Uint8Array>({
      pull: async (controller) => {
        try {
          const { done, value } = await text.next();
          if (!done) {
            const chunk = encoder.encode(value);
            await fill.write(chunk);
            controller.enqueue(chunk);
            return;
          }
          controller.close();
          context.waitUntil(value ? this.#keep(fill, first.version) : fill.abort());
        } catch (error) {
          await fill.abort();
          context.onBroken(error);
          controller.error(error);
        }
      },
      cancel: async () => {
        await fill.abort();
        await text.return(false);
      },
    });
  }

  async #keep(fill: OrderListFill, version: string): Promise<void> {
    if (!(await fill.commit())) return;
    const kept = await cachedOrderList(version);
    if (kept === null) return;
    await kept.cancel();
    const earlier = this.#cachedVersion;
    this.#cachedVersion = version;
    if (earlier !== null && earlier !== version) await dropCachedOrderList(earlier);
  }
}
