import { differencesFromDocument } from "../../src/openapi/documented-answer.ts";
import {
  readRetryAfterSeconds,
  readWindows,
  type WindowQuota,
} from "../../src/client/rate-limit-headers.ts";

/** A response, with Unix times in milliseconds. `code` is `null` in a successful response. */
export interface Answer {
  readonly sentMs: number;
  readonly receivedMs: number;
  readonly status: number;
  readonly code: string | null;
  readonly minute: WindowQuota;
  readonly day: WindowQuota;
  readonly retryAfterSeconds: number | null;
}

/** Reads a response. Returns a description of the fault if the response is wrong. */
export async function readAnswer(
  response: Response,
  method: string,
  path: string,
  sentMs: number,
): Promise<Answer | string> {
  const text = await response.text();
  const { status, headers } = response;
  const receivedMs = Date.now();
  // Does not validate the bodies of lists, because that would take most of the machine's time.
  const body = status === 200 ? null : text;
  const differences = differencesFromDocument({ method, path, status, headers, body });
  const [minute, day] = readWindows(headers);
  const isWhole = status !== 200 || method === "HEAD" || text.endsWith("]");
  if (differences.length > 0 || status === 500 || !isWhole || minute === undefined || !day) {
    const seen = JSON.stringify(Object.fromEntries(headers));
    return `${status} ${differences.join()} ${seen} ${text.slice(0, 200)}`;
  }
  const hasCode = status >= 400 && method !== "HEAD";
  const code = hasCode
    ? (JSON.parse(text) as { code: string }).code
    : codeOfHead(status, minute, day);
  const retryAfterSeconds = readRetryAfterSeconds(headers);
  return { sentMs, receivedMs, status, code, minute, day, retryAfterSeconds };
}

/** Derives a HEAD response's error code. In a ban, both windows are used up and end together. */
function codeOfHead(status: number, minute: WindowQuota, day: WindowQuota): string | null {
  if (status !== 429) return null;
  const isEmpty = minute.remaining === 0 && day.remaining === 0;
  const isBan = isEmpty && minute.resetSeconds === day.resetSeconds;
  return isBan ? "api_key_banned" : "rate_limit_exceeded";
}
