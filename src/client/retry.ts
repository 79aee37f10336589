import { BrokenListError, isStoreOrdersError, NetworkError, TimeoutError } from "./errors.ts";
import type { AnyStoreOrdersError } from "./errors.ts";
import type { Call } from "./send.ts";
import { sleep } from "./sleep.ts";

const FIRST_BACKOFF_MS = 250;
const LONGEST_BACKOFF_MS = 10_000;

/**
 * Does `work`, and again where it failed in a way that passes. Both operations of the service are
 * idempotent (RFC 9110, section 9.2.2), so any request may be repeated.
 *
 * @throws the last error: where it does not pass, or too many or too long repetitions would be needed.
 */
export async function withRetries<T>(call: Call, work: () => Promise<T>): Promise<T> {
  const { settings, signal, isPaced } = call;
  const startMs = performance.now();
  // What is paced waits as long as it takes.
  const maxElapsedMs = isPaced ? Infinity : settings.maxElapsedMs;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work();
    } catch (error) {
      if (!isStoreOrdersError(error) || !passes(error) || attempt > settings.retries) throw error;
      const delayMs = retryDelayMs(error.retryAfterSeconds, attempt);
      if (performance.now() - startMs + delayMs > maxElapsedMs) throw error;
      settings.onRetry({ error, attempt, delayMs });
      await sleep(delayMs, signal);
    }
  }
}

/** Whether an attempt may have done its work although it failed. */
export function isAmbiguous(error: unknown): boolean {
  if (error instanceof NetworkError || error instanceof TimeoutError) return true;
  return isStoreOrdersError(error) && (error.status ?? 0) >= 500;
}

function passes(error: AnyStoreOrdersError): boolean {
  return isAmbiguous(error) || error instanceof BrokenListError || error.status === 429;
}

/** Full jitter: any time up to a limit that doubles, on top of what the service asks for. */
export function retryDelayMs(retryAfterSeconds: number | null, attempt: number): number {
  const limitMs = Math.min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** (attempt - 1));
  return (retryAfterSeconds ?? 0) * 1_000 + Math.random() * limitMs;
}
