import { styleText } from "node:util";
import { z } from "zod";

/** The fields of a logged request that a terminal shows. */
const requestSchema = z.object({
  event: z.literal("request"),
  method: z.string(),
  route: z.string(),
  status: z.number(),
  durationMs: z.number(),
  keyId: z.string().nullable(),
  code: z.string().nullable(),
  remaining: z.number().nullable(),
  limit: z.number().nullable(),
  window: z.string().nullable(),
});

/** Returns whether a line comes from the service rather than from wrangler. */
export function isServiceLine(line: string): boolean {
  return line.startsWith('{"event":');
}

/** Formats a log line of the service: readable on a terminal, else JSON with the time `at`. */
export function formatServiceLine(line: string, at: Date, stream: NodeJS.WriteStream): string {
  const { event, ...fields } = JSON.parse(line) as { event: string };
  if (!stream.isTTY) return JSON.stringify({ event, time: at.toISOString(), ...fields });
  const time = at.toISOString().slice(11, 19);
  const request = requestSchema.safeParse({ event, ...fields }).data;
  if (request === undefined) return `${time}  ${event}  ${formatFields(fields)}`.trimEnd();
  const { method, route, status, durationMs, keyId, code, remaining, limit, window } = request;
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
