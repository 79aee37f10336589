import pTimeout from "p-timeout";

/** A cache that takes longer for one page is given up, so that it cannot hold up the caller. */
const WRITE_TIMEOUT_MS = 2_000;

const CACHE_NAME = "order-list";

/** Entries are named by their version and never change; old ones only take up space. */
const LIFETIME_SECONDS = 86_400;

/**
 * The list of that version as JSON text from the data centre's cache, or `null` where the cache does
 * not have it or fails. Where there is no cache (on workers.dev) nothing is ever found.
 */
export async function cachedOrderList(version: string): Promise<ReadableStream<Uint8Array> | null> {
  try {
    const cache = await caches.open(CACHE_NAME);
    return (await cache.match(urlOf(version)))?.body ?? null;
  } catch {
    return null;
  }
}

/** Removes the list of a version that has passed. Never rejects. */
export async function dropCachedOrderList(version: string): Promise<void> {
  try {
    const cache = await caches.open(CACHE_NAME);
    await cache.delete(urlOf(version));
  } catch {
    // It goes by itself at the end of its lifetime.
  }
}

/**
 * A list on its way into the cache, at the pace of its caller; it is found only once it has been kept
 * whole. None of the methods rejects.
 */
export class OrderListFill {
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>;
  /** Whether the cache took all that it was given. */
  readonly #put: Promise<boolean>;
  #isOpen = true;

  constructor(version: string) {
    const { readable, writable } = new IdentityTransformStream();
    this.#writer = writable.getWriter();
    const headers = { "Cache-Control": `max-age=${LIFETIME_SECONDS}` };
    this.#put = caches
      .open(CACHE_NAME)
      .then((cache) => cache.put(urlOf(version), new Response(readable, { headers })))
      .then(
        () => true,
        () => false,
      );
  }

  /** Passes on the next part, and gives the fill up where the cache does not take it. */
  async write(chunk: Uint8Array): Promise<void> {
    if (!this.#isOpen) return;
    const write = this.#writer.write(chunk).then(() => true);
    try {
      const isTaken = await pTimeout(Promise.race([write, this.#put.then(() => false)]), {
        milliseconds: WRITE_TIMEOUT_MS,
      });
      if (!isTaken) await this.abort();
    } catch {
      await this.abort();
    }
  }

  /** Ends the fill. @returns whether the list is kept. */
  async commit(): Promise<boolean> {
    if (!this.#isOpen) return false;
    this.#isOpen = false;
    this.#writer.close().catch(() => undefined);
    return this.#put;
  }

  /** Gives the fill up: nothing is kept. */
  async abort(): Promise<void> {
    this.#isOpen = false;
    await this.#writer.abort(new Error("The list is not whole.")).catch(() => undefined);
  }
}

function urlOf(version: string): string {
  return `https://order-list.invalid/${version}`;
}
