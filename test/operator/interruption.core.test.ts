import { expect, it } from "vitest";
import { withInterruption } from "../../src/operator/interruption.ts";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
/** The listeners of other code, which the tests must not call. */
const others = new Set<unknown>(SIGNALS.flatMap((name) => process.rawListeners(name)));
const own = (name: NodeJS.Signals) =>
  process.rawListeners(name).filter((each) => !others.has(each));

it.each(SIGNALS)("%s lets work clean up, also if it comes again, and is named", async (name) => {
  const interrupted = new Error(`ended by ${name} before all was done`);
  const streamClosed = Object.assign(new Error("closed"), { name: "AbortError" });
  const failed = new Error("the rollback failed");
  for (const [thrown, error] of [
    [streamClosed, interrupted],
    [failed, failed],
  ] as const) {
    const work = withInterruption("all was done", async (signal) => {
      for (let times = 0; times < 2; times += 1) {
        // Without a listener, the signal would end the process.
        expect(own(name)).toHaveLength(1);
        for (const listener of own(name)) listener(name);
      }
      expect(signal.reason).toEqual(interrupted);
      throw thrown;
    });
    await expect(work).rejects.toEqual(error);
    expect(SIGNALS.flatMap(own)).toEqual([]);
  }
});
