import { vi } from "vitest";

/** One line of the Worker's log. */
export type LogLine = Readonly<Record<string, unknown>>;

/** Takes the Worker's log away from the console. @returns the lines written since, oldest first. */
export function readLog(): () => LogLine[] {
  const written = vi.spyOn(console, "warn").mockReturnValue();
  return () => written.mock.calls.map(([line]) => JSON.parse(String(line)) as LogLine);
}

/** The names of the events of those lines. */
export function events(lines: readonly LogLine[]): unknown[] {
  return lines.map(({ event }) => event);
}
