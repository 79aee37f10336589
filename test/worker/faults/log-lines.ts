import { listenTo } from "../../support/written-lines.ts";

/** One line of the Worker's log. */
export type LogLine = Readonly<Record<string, unknown>>;

/** Takes the Worker's events away from the console. @returns the lines written since, oldest first. */
export function readLog(): () => LogLine[] {
  const lines = listenTo("warn");
  return () => lines().map((line) => JSON.parse(line) as LogLine);
}

/** The names of the events of those lines. */
export function events(lines: readonly LogLine[]): unknown[] {
  return lines.map(({ event }) => event);
}
