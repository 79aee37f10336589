/** The longest delay that `setTimeout` supports, in milliseconds. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Returns the result of `work`, or throws the signal's reason at once when the signal aborts. */
export async function orAbort<T>(
  signal: AbortSignal | undefined,
  work: () => Promise<T>,
): Promise<T> {
  signal?.throwIfAborted();
  return new Promise((resolve, reject) => {
    const fail = (): void => reject(signal?.reason);
    signal?.addEventListener("abort", fail, { once: true });
    const done = (async () => work())().then(resolve, reject);
    void done.finally(() => signal?.removeEventListener("abort", fail));
  });
}

/** Aborts a controller when a signal aborts. Returns a function that stops listening. */
export function follow(signal: AbortSignal | undefined, controller: AbortController): () => void {
  const onAbort = (): void => controller.abort(signal?.reason);
  if (signal?.aborted) onAbort();
  signal?.addEventListener("abort", onAbort, { once: true });
  return () => signal?.removeEventListener("abort", onAbort);
}

/** Waits at least `ms`, even if a timer fires early. If the signal aborts, throws its reason. */
export async function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  const endMs = performance.now() + ms;
  for (let leftMs = ms; leftMs > 0; leftMs = endMs - performance.now()) {
    let wake = (): void => undefined;
    const timer = setTimeout(() => wake(), Math.min(Math.ceil(leftMs), MAX_TIMER_MS));
    const fired = (): Promise<void> =>
      new Promise((resolve) => {
        wake = resolve;
      });
    await orAbort(signal, fired).finally(() => clearTimeout(timer ?? 0));
  }
}
