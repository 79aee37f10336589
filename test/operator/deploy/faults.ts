import { expect, vi } from "vitest";
import type { FakeCloudflare } from "./fake-cloudflare.ts";
import { type ApiCall, ApiError } from "./route.ts";
import type { Outcome } from "./run-command.ts";

/** Closes the connection without a response. */
export class LostConnection extends Error {
  override readonly message = "the connection is lost";
}

/** An answer that reports success with an empty result. */
export class Lie extends ApiError {
  constructor() {
    super(200, 0, "an empty answer");
  }
}

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
/** The listeners that do not belong to the command under test. */
const others = new Set<unknown>();

function keepOtherListeners(): void {
  for (const signal of SIGNALS) for (const each of process.listeners(signal)) others.add(each);
}
keepOtherListeners();

export function interrupt(index = 0): void {
  const signal = SIGNALS[index % SIGNALS.length] ?? "SIGINT";
  const own = process.listeners(signal).filter((listener) => !others.has(listener));
  // npm sends Ctrl+C twice.
  for (const listener of [...own, ...own]) listener(signal);
}

const lose = () => {
  throw new LostConnection();
};

/** Each function runs before an API call. A function that it returns runs after the call. */
export const FAULTS: Readonly<Record<string, (position: number) => void | (() => void)>> = {
  "a signal before it": interrupt,
  "a connection that is lost before it": lose,
  "a connection that is lost after it": () => lose,
  "an answer that lies": () => {
    throw new Lie();
  },
  "a connection that is lost for good": lose,
};

/**
 * Runs a command once without a fault, and then once for each fault at each of its API calls. Of calls
 * that only read, visits the first and the last of each kind, and skips faults after them. If a
 * connection is lost for good, all later calls fail too.
 *
 * @param check receives the outcome of each run with a fault, and a label for messages.
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
      const isRead = /^\{(?:"batch":\[\{)?"sql":"\(*\s*select /i.test(String(body));
      const index = calls.push(`${isRead ? "GET" : method} ${path}`) - 1;
      const isDisturbed = fault.endsWith("for good") ? index >= position : index === position;
      return isDisturbed ? faults[fault]?.(position) : undefined;
    };
    const outcome = await run();
    cloudflare.interfere = () => {};
    return { outcome, calls };
  };
  keepOtherListeners();
  const { outcome: undisturbed, calls } = await runWith("none", 0);
  expect(undisturbed.status).toBe(0);
  expect(calls.length).toBeGreaterThan(5);
  const kinds = calls.map((call) => call.replaceAll(/[\da-f]{8}-[\da-f-]{27}/g, "ID"));
  const isVisited = (position: number, fault: string) => {
    const kind = kinds[position] ?? "";
    if (!kind.startsWith("GET")) return true;
    const ends = [kinds.indexOf(kind), kinds.lastIndexOf(kind)];
    return ends.includes(position) && !fault.endsWith("after it");
  };
  for (const fault of Object.keys(faults)) {
    for (const [position, call] of calls.entries()) {
      if (!isVisited(position, fault)) continue;
      const { outcome } = await runWith(fault, position);
      const { stdout, stderr } = outcome;
      await check(outcome, `${fault}, call ${position}, ${call}:\n${stdout}${stderr}`);
    }
  }
}

export function shortenPauses(): void {
  const realSetTimeout = setTimeout;
  const shortened = (work: () => void, milliseconds?: number, ...args: []) =>
    realSetTimeout(work, Math.min(milliseconds ?? 0, 1), ...args);
  vi.stubGlobal("setTimeout", Object.assign(shortened, realSetTimeout));
}
