import { listenTo } from "../../support/written-lines.ts";

export type LogLine = Readonly<Record<string, unknown>>;

/**
 * Captures the events that the Worker logs. Returns a function that returns the log lines so far,
 * the oldest first.
 */
export function readLog(): () => LogLine[] {
  const lines = listenTo("warn");
  return () => lines().map((line) => JSON.parse(line) as LogLine);
}

/** Returns the event names of these log lines. */
export function events(lines: readonly LogLine[]): unknown[] {
  return lines.map(({ event }) => event);
}
