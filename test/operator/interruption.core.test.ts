import { expect, it } from "vitest";
import { withInterruption } from "../../src/operator/interruption.ts";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
type Name = (typeof SIGNALS)[number];

/** The listeners of other code, which the tests must not call. */
const others = new Set<unknown>(SIGNALS.flatMap((name) => process.rawListeners(name)));

const own = (name: Name) => process.rawListeners(name).filter((each) => !others.has(each));

function send(name: Name): void {
  const listeners = own(name);
  // Without a listener, the signal would end the process.
  expect(listeners).toHaveLength(1);
  for (const listener of listeners) listener(name);
}

const abortError = () => Object.assign(new Error("stream closed"), { name: "AbortError" });

it.each(SIGNALS)("%s lets work clean up, also if it comes again, and is named", async (name) => {
  for (const [error, message] of [
    [abortError(), `ended by ${name} before all was done`],
    [new Error("the rollback failed"), "the rollback failed"],
  ] as const) {
    const work = withInterruption("all was done", async (signal) => {
      send(name);
      send(name === "SIGINT" ? "SIGTERM" : "SIGINT");
      send(name);
      expect(signal.reason).toEqual(new Error(`ended by ${name} before all was done`));
      throw error;
    });
    await expect(work).rejects.toThrow(message);
    expect(SIGNALS.flatMap(own)).toEqual([]);
  }
});

it("returns the result or the error of work without a signal, and stops listening", async () => {
  const failure = abortError();
  expect(await withInterruption("all was done", async () => "done")).toBe("done");
  const failing = withInterruption("all was done", () => Promise.reject(failure));
  await expect(failing).rejects.toBe(failure);
  expect(SIGNALS.flatMap(own)).toEqual([]);
});
