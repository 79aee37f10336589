import pRetry from "p-retry";
import { expect, vi } from "vitest";
import * as retrying from "../../../src/operator/retry.ts";
import type { FakeCloudflare } from "./fake-cloudflare.ts";
import { type ApiCall, ApiError } from "./route.ts";
import type { Outcome } from "../commands.ts";

export function interrupt(index = 0): void {
  const signal = (["SIGINT", "SIGTERM", "SIGHUP"] as const)[index % 3] ?? "SIGINT";
  // Only the listeners of `withInterruption`: others would end this process.
  const own = process.listeners(signal).filter(({ name }) => name === "interrupt");
  // npm sends Ctrl+C twice.
  for (const listener of [...own, ...own]) listener(signal);
}

export const throwing = (error: Error) => () => {
  throw error;
};
/** Closes the connection without a response. */
export const lose = throwing(new Error("the connection is lost"));

/** Each function runs before an API call. A function that it returns runs after the call. */
export const FAULTS: Readonly<Record<string, (position: number) => void | (() => void)>> = {
  "a signal before it": interrupt,
  "a connection that is lost before it": lose,
  "a connection that is lost after it": () => lose,
  // Reports success with an empty result.
  "an answer that lies": throwing(new ApiError(200, 0, "an empty answer")),
  "a connection that is lost for good": lose,
};

/**
 * Runs a command once without a fault, and then once for each fault at each of its API calls. Of calls
 * that only read, visits the first and the last of each kind, and skips faults after them. If a
 * connection is lost for good, all later calls fail too. `check` gets each outcome, and a label.
 */
export async function atEveryCall(
  cloudflare: FakeCloudflare,
  run: () => Promise<Outcome>,
  check: (outcome: Outcome, label: string) => Promise<void>,
  faults = FAULTS,
): Promise<void> {
  const runWith = async (fault: string, position: number) => {
    const calls: string[] = [];
    cloudflare.interfere = ({ method, path, body }: ApiCall) => {
      const isRead = /^\{(?:"batch":\[\{)?"sql":"\(*\s*select /i.test(body);
      const kind = path.replaceAll(/[\da-f]{8}-[\da-f-]{27}/g, "ID");
      const index = calls.push(`${isRead ? "GET" : method} ${kind}`) - 1;
      const isDisturbed = fault.endsWith("for good") ? index >= position : index === position;
      return isDisturbed ? faults[fault]?.(position) : undefined;
    };
    const outcome = await run();
    cloudflare.interfere = () => {};
    return { outcome, calls };
  };
  const { outcome: undisturbed, calls } = await runWith("none", 0);
  expect(undisturbed.status).toBe(0);
  expect(calls.length).toBeGreaterThan(5);
  for (const fault of Object.keys(faults)) {
    for (const [position, call] of calls.entries()) {
      const isEnd = [calls.indexOf(call), calls.lastIndexOf(call)].includes(position);
      if (call.startsWith("GET") && (!isEnd || fault.endsWith("after it"))) continue;
      const { outcome } = await runWith(fault, position);
      const { stdout, stderr } = outcome;
      await check(outcome, `${fault}, call ${position}, ${call}:\n${stdout}${stderr}`);
    }
  }
}

/** Shortens the pauses of commands between attempts, until the mocks are restored. */
export function shortenPauses(): void {
  vi.spyOn(retrying, "retry").mockImplementation((work, options) =>
    pRetry(work, { ...options, minTimeout: 1, maxTimeout: 1 }),
  );
}
