import { vi } from "vitest";

/**
 * Stops timers of this length, so that a slow machine misses no deadline.
 *
 * @returns a function that expires the timers that are set by now or in the same turn.
 */
export function stopDeadlines(timeoutMs: number): () => void {
  const { setTimeout, clearTimeout } = globalThis;
  const deadlines = new Map<unknown, () => void>();
  const set = (expire: () => void, ms?: number) => {
    if (ms !== timeoutMs) return setTimeout(expire, ms);
    const id = Symbol("deadline");
    deadlines.set(id, expire);
    return id;
  };
  const clear = (id: unknown) => {
    if (!deadlines.delete(id)) clearTimeout(id as number);
  };
  vi.spyOn(globalThis, "setTimeout").mockImplementation(set as typeof setTimeout);
  vi.spyOn(globalThis, "clearTimeout").mockImplementation(clear as typeof clearTimeout);
  const pass = () => {
    const passing = [...deadlines.values()];
    deadlines.clear();
    for (const expire of passing) expire();
  };
  return () => void setTimeout(pass, 0);
}
