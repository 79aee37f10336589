import { vi } from "vitest";

/**
 * Replaces timers of exactly this length with timers that expire only when the test says so. So a
 * slow machine does not cause timeouts.
 *
 * @returns a function that makes all of these timers expire, also timers that are set right after
 *   its call, in the same turn of the event loop.
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
    if (typeof id === "symbol") deadlines.delete(id);
    else clearTimeout(id as number);
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
