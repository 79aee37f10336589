import { expect, it } from "vitest";
import { withInterruption } from "../../src/operator/interruption.ts";
import { interrupt } from "./deploy/faults.ts";

it.each(["SIGINT", "SIGTERM", "SIGHUP"])("%s lets work clean up, and is named", async (name) => {
  const index = ["SIGINT", "SIGTERM", "SIGHUP"].indexOf(name);
  const listeners = process.listenerCount(name);
  for (const message of [`ended by ${name} before all was done`, "the rollback failed"]) {
    const work = withInterruption("all was done", async (signal) => {
      interrupt(index);
      expect(signal.reason).toEqual(new Error(`ended by ${name} before all was done`));
      // npm sends Ctrl+C again. Without a listener, that would end the process.
      expect(process.listenerCount(name)).toBe(listeners + 1);
      if (message.startsWith("the")) throw new Error(message);
      throw Object.assign(new Error("stream closed"), { name: "AbortError" });
    });
    await expect(work).rejects.toThrow(message);
    expect(process.listenerCount(name)).toBe(listeners);
  }
});
