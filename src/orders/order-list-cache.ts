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

/** Keeps the list of that version, unless `body` breaks off. @returns whether it is found from now on. */
export async function cacheOrderList(
  version: string,
  body: ReadableStream<Uint8Array>,
): Promise<boolean> {
  try {
    const cache = await caches.open(CACHE_NAME);
    const headers = { "Cache-Control": `max-age=${LIFETIME_SECONDS}` };
    await cache.put(urlOf(version), new Response(body, { headers }));
  } catch {
    return false;
  }
  const kept = await cachedOrderList(version);
  await kept?.cancel();
  return kept !== null;
}

/** Removes the list of a version that has passed. */
export async function dropCachedOrderList(version: string): Promise<void> {
  try {
    const cache = await caches.open(CACHE_NAME);
    await cache.delete(urlOf(version));
  } catch {
    // It goes by itself at the end of its lifetime.
  }
}

function urlOf(version: string): string {
  return `https://order-list.invalid/${version}`;
}
