import { listenTo } from "../../support/written-lines.ts";

export type LogLine = Readonly<Record<string, unknown>>;

/** Captures the events that the Worker logs. The returned function returns them, oldest first. */
export function readLog(): () => LogLine[] {
  const lines = listenTo("warn");
  return () => lines().map((line) => JSON.parse(line) as LogLine);
}

export function events(lines: readonly LogLine[]): unknown[] {
  return lines.map(({ event }) => event);
}
