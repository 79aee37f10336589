/**
 * Runs `work` for each item, for at most `concurrency` items at once. The first error, or an abort
 * of `outer`, aborts the signal that `work` receives. Work on further items then does not begin.
 *
 * @returns the error that ended the loop early; `null` if all items are done.
 */
export async function forEachAtOnce<T>(
  items: readonly T[],
  concurrency: number,
  outer: AbortSignal | undefined,
  work: (item: T, signal: AbortSignal) => Promise<void>,
): Promise<{ readonly error: unknown } | null> {
  const stop = new AbortController();
  const follow = (): void => stop.abort(outer?.reason);
  outer?.addEventListener("abort", follow, { once: true });
  if (outer?.aborted) follow();
  let failure: { readonly error: unknown } | null = null;
  const queue = items.values();
  const worker = async (): Promise<void> => {
    try {
      // The workers share one iterator, so that only one worker gets each item.
      for (const item of queue) {
        stop.signal.throwIfAborted();
        await work(item, stop.signal);
      }
    } catch (error) {
      failure ??= { error };
      stop.abort(error);
    }
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, items.length) }, worker));
  outer?.removeEventListener("abort", follow);
  return failure;
}
