import { listenTo } from "../../support/written-lines.ts";

/** One line of the Worker's log. */
export type LogLine = Readonly<Record<string, unknown>>;

/** Captures the Worker's events. @returns a function that reads the lines so far, the oldest first. */
export function readLog(): () => LogLine[] {
  const lines = listenTo("warn");
  return () => lines().map((line) => JSON.parse(line) as LogLine);
}

/** Returns the names of the events. */
export function events(lines: readonly LogLine[]): unknown[] {
  return lines.map(({ event }) => event);
}
