/** The longest delay that `setTimeout` supports, in milliseconds. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * Waits at least `ms` milliseconds, although a timer may fire a little early.
 *
 * @throws the signal's reason, as soon as the signal is aborted.
 */
export async function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  const endMs = performance.now() + ms;
  signal?.throwIfAborted();
  for (let leftMs = ms; leftMs > 0; leftMs = endMs - performance.now()) {
    await timer(Math.min(Math.ceil(leftMs), MAX_TIMER_MS), signal);
  }
}

function timer(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => {
      clearTimeout(timeout);
      reject(signal?.reason);
    };
    const timeout = setTimeout(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}
