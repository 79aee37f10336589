import { expect, it } from "vitest";
import { withInterruption } from "../../src/operator/interruption.ts";

it.each(["SIGINT", "SIGTERM", "SIGHUP"])("%s lets work clean up, also twice", async (name) => {
  const others = process.rawListeners(name);
  const own = () => process.rawListeners(name).filter((listener) => !others.includes(listener));
  const work = withInterruption("all was done", async (signal) => {
    for (const listener of own()) listener(name);
    expect(signal.aborted).toBe(true);
    // npm sends Ctrl+C again. Without a listener, that would end the process.
    expect(own()).toHaveLength(1);
    throw Object.assign(new Error("stream closed"), { name: "AbortError" });
  });
  await expect(work).rejects.toThrow(`ended by ${name} before all was done`);
  expect(own()).toEqual([]);
});
