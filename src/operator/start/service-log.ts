import { styleText } from "node:util";
import type { RequestRecord } from "../../worker/telemetry/request-record.ts";

/** Returns whether a line comes from the service rather than from wrangler. */
export function isServiceLine(line: string): boolean {
  return line.startsWith('{"event":');
}

/** Formats a log line of the service: readable on a terminal, else JSON with the time `at`. */
export function formatServiceLine(line: string, at: Date, stream: NodeJS.WriteStream): string {
  const { event, ...fields } = JSON.parse(line) as { event: string };
  if (!stream.isTTY) return JSON.stringify({ event, time: at.toISOString(), ...fields });
  const time = at.toISOString().slice(11, 19);
  if (event !== "request") return `${time}  ${event}  ${formatFields(fields)}`.trimEnd();
  const { method, route, status, durationMs, keyId, code, remaining, limit, window } =
    fields as RequestRecord;
  const parts = [
    time,
    status < 400 ? String(status) : styleText("red", String(status), { stream }),
    `${method.padEnd(6)} ${route}`,
    `${durationMs} ms`,
    keyId ?? "no key",
    ...(window === null ? [] : [`${remaining} of ${limit} left, ${window}`]),
    ...(code === null ? [] : [code]),
  ];
  return parts.join("  ");
}

function formatFields(fields: object): string {
  const shown = Object.entries(fields).filter(([, value]) => value !== null);
  return shown
    .map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(" ");
}
