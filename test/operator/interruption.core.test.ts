import { describe, expect, it } from "vitest";
import { withInterruption } from "../../src/operator/interruption.ts";

/** The listeners of other code, which the tests must not call. */
const others = { SIGINT: process.rawListeners("SIGINT"), SIGTERM: process.rawListeners("SIGTERM") };

const own = (name: keyof typeof others) =>
  process.rawListeners(name).filter((listener) => !others[name].includes(listener));

function send(name: keyof typeof others): void {
  const listeners = own(name);
  // Without a listener, the signal would end the process.
  expect(listeners).toHaveLength(1);
  for (const listener of listeners) listener(name);
}

const abortError = () => Object.assign(new Error("stream closed"), { name: "AbortError" });

describe.each(["SIGINT", "SIGTERM"] as const)("%s", (name) => {
  it.each([
    ["a destroyed stream", abortError(), `ended by ${name} before all was done`],
    ["the clean-up", new Error("the rollback failed"), "the rollback failed"],
  ])(
    "lets work clean up, also if it comes again, and names what ended it: after an error of %s",
    async (_, error, message) => {
      const work = withInterruption("all was done", async (signal) => {
        send(name);
        send(name === "SIGINT" ? "SIGTERM" : "SIGINT");
        send(name);
        expect(signal.reason).toEqual(new Error(`ended by ${name} before all was done`));
        throw error;
      });
      await expect(work).rejects.toThrow(message);
      expect([own("SIGINT"), own("SIGTERM")]).toEqual([[], []]);
    },
  );
});

it("returns the result or the error of work without a signal, and stops listening", async () => {
  const failure = abortError();
  expect(await withInterruption("all was done", async () => "done")).toBe("done");
  const failing = withInterruption("all was done", () => Promise.reject(failure));
  await expect(failing).rejects.toBe(failure);
  expect([own("SIGINT"), own("SIGTERM")]).toEqual([[], []]);
});
