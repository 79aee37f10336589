import { vi } from "vitest";
import { type FakeCloudflare, Lie, LostConnection } from "./fake-cloudflare.ts";
import type { ApiCall } from "./route.ts";

/** The listeners for Ctrl+C that do not belong to the command under test. */
const others = process.listeners("SIGINT");

/** Calls the command's own listeners for Ctrl+C. A real signal would also reach other code. */
export function interrupt(): void {
  const own = process.listeners("SIGINT").filter((listener) => !others.includes(listener));
  for (const listener of own) listener("SIGINT");
}

/** What can happen to a call of the API: before it, or, in the returned function, after it. */
export const FAULTS: Readonly<Record<string, () => void | (() => void)>> = {
  "a signal before it": () => interrupt(),
  "a signal after it": () => interrupt,
  "a connection that is lost before it": () => {
    throw new LostConnection();
  },
  "a connection that is lost after it": () => () => {
    throw new LostConnection();
  },
  "an answer that lies": () => {
    throw new Lie();
  },
  "a connection that is lost for good": () => {
    throw new LostConnection();
  },
};

/**
 * Lets a fault happen to the call at a position; a connection that is lost for good fails all calls
 * after it too.
 *
 * @returns a function that returns the calls so far.
 */
export function disturb(
  cloudflare: FakeCloudflare,
  fault: string,
  position: number,
): () => string[] {
  const calls: string[] = [];
  cloudflare.interfere = ({ method, path, body }: ApiCall) => {
    const isRead = /^\{"sql":"\s*select /i.test(String(body));
    const index = calls.push(`${isRead ? "GET" : method} ${path}`) - 1;
    const isDisturbed = fault.endsWith("for good") ? index >= position : index === position;
    return isDisturbed ? FAULTS[fault]?.() : undefined;
  };
  return () => calls;
}

/** Makes all pauses short, such as those between retries. */
export function shortenPauses(): void {
  const realSetTimeout = setTimeout;
  const shortened = (work: () => void, milliseconds?: number, ...args: []) =>
    realSetTimeout(work, Math.min(milliseconds ?? 0, 1), ...args);
  vi.stubGlobal("setTimeout", Object.assign(shortened, realSetTimeout));
}
