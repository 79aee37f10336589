import { expect, it } from "vitest";
import {
  receivedSignal,
  unlessAborted,
  withInterruption,
} from "../../src/operator/interruption.ts";

it.each(["SIGINT", "SIGTERM", "SIGHUP"])("%s lets work clean up, and is named", async (name) => {
  const others = process.rawListeners(name);
  const own = () => process.rawListeners(name).filter((listener) => !others.includes(listener));
  for (const message of [`ended by ${name} before all was done`, "the rollback failed"]) {
    const work = withInterruption("all was done", async (signal) => {
      for (const listener of own()) listener(name);
      expect(signal.reason).toEqual(new Error(`ended by ${name} before all was done`));
      expect(receivedSignal).toBe(name);
      // npm sends Ctrl+C again. Without a listener, that would end the process.
      expect(own()).toHaveLength(1);
      if (message.startsWith("the")) throw new Error(message);
      // Work that has not begun does not begin.
      const begun = unlessAborted(signal, () => Promise.reject(new Error("begun")));
      await expect(begun).rejects.toThrow("ended by");
      throw Object.assign(new Error("stream closed"), { name: "AbortError" });
    });
    await expect(work).rejects.toThrow(message);
    expect(own()).toEqual([]);
  }
});
