import { sleep } from "./abort.ts";
import { BrokenListError, isStoreOrdersError, NetworkError, TimeoutError } from "./errors.ts";
import type { Call } from "./send.ts";

const FIRST_BACKOFF_MS = 250;
const LONGEST_BACKOFF_MS = 10_000;

/**
 * Runs `work`, and repeats it after temporary failures. Listing orders and cancelling an order
 * are idempotent (RFC 9110, section 9.2.2), so every request may be sent again.
 */
export async function withRetries<T>(call: Call, work: () => Promise<T>): Promise<T> {
  const { settings, signal, isPaced } = call;
  const startMs = performance.now();
  // A paced call has no time limit, because it waits until the rate limits admit the request.
  const maxElapsedMs = isPaced ? Infinity : settings.maxElapsedMs;
  let failures = 0;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work();
    } catch (error) {
      if (!isStoreOrdersError(error)) throw error;
      const isRefused = error.status === 429;
      const isCutOff = error instanceof BrokenListError && error.isCutOff;
      if (!isRefused && !isCutOff && !isAmbiguous(error)) throw error;
      // Another client of the key may take the room of many windows before this call gets some.
      if (!(isPaced && isRefused)) failures += 1;
      if (failures > settings.retries) throw error;
      const delayMs = retryDelayMs(error.retryAfterSeconds, attempt);
      if (performance.now() - startMs + delayMs > maxElapsedMs) throw error;
      settings.onRetry({ error, attempt, delayMs });
      const heldMs = isPaced ? (error.retryAfterSeconds ?? 0) * 1_000 : 0;
      // A newer response may end a long wait early, such as after the operator lifted a ban.
      if (heldMs > 0) await call.gate.waitWhileHeld(signal);
      await sleep(delayMs - heldMs, signal);
    }
  }
}

/** Returns whether the service may have executed the request in spite of the error. */
export function isAmbiguous(error: unknown): boolean {
  if (error instanceof NetworkError || error instanceof TimeoutError) return true;
  return isStoreOrdersError(error) && (error.status ?? 0) >= 500;
}

/** Returns `Retry-After`, if any, plus a random backoff whose bound doubles with every attempt. */
export function retryDelayMs(retryAfterSeconds: number | null, attempt: number): number {
  const limitMs = Math.min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** (attempt - 1));
  return (retryAfterSeconds ?? 0) * 1_000 + Math.random() * limitMs;
}
