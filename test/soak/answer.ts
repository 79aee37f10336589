import {
  readRetryAfterSeconds,
  readWindows,
  type WindowQuota,
} from "../../src/client/rate-limit-headers.ts";

/** A response, with the times of the request and the response in Unix milliseconds. */
export interface Answer {
  readonly sentMs: number;
  readonly receivedMs: number;
  readonly status: number;
  /** The `code` in the error body; `null` if the response is not an error. */
  readonly code: string | null;
  readonly minute: WindowQuota;
  readonly day: WindowQuota;
  /** `Retry-After` in seconds; `null` if the response has no such header. */
  readonly retryAfterSeconds: number | null;
}

/**
 * Reads a response and compares it with docs/api.md and docs/limits.md.
 *
 * @returns the response, or a description of the fault if the response is not as documented.
 */
export async function readAnswer(
  response: Response,
  method: string,
  sentMs: number,
): Promise<Answer | string> {
  const text = await response.text();
  const { status, headers } = response;
  const receivedMs = Date.now();
  const [minute, day, ...others] = readWindows(headers);
  const isBodiless = method === "HEAD" && text === "";
  const code =
    status < 400 ? null : isBodiless ? codeOfHead(status, minute, day) : errorCode(text, status);
  const areWindows = minute?.lengthSeconds === 60 && day?.lengthSeconds === 86_400;
  if (!CODES[status]?.includes(code) || !areWindows || others.length > 0) {
    return `${status} ${JSON.stringify(Object.fromEntries(headers))} ${text.slice(0, 200)}`;
  }
  const retryAfterSeconds = readRetryAfterSeconds(headers);
  if ((retryAfterSeconds !== null) !== (status === 429 || status === 503)) {
    return `${status} Retry-After`;
  }
  return { sentMs, receivedMs, status, code, minute, day, retryAfterSeconds };
}

/** The error codes that are allowed for each HTTP status (docs/api.md, Errors). 500 is a fault. */
const CODES: Readonly<Record<number, readonly (string | null)[]>> = {
  200: [null],
  204: [null],
  304: [null],
  401: ["unauthorized"],
  404: ["not_found", "order_not_found"],
  405: ["method_not_allowed"],
  409: ["order_already_shipped"],
  429: ["rate_limit_exceeded", "api_key_banned"],
  503: ["service_unavailable"],
};

function errorCode(text: string, status: number): string {
  try {
    const body = JSON.parse(text) as Record<string, unknown>;
    const isError = Object.keys(body).length === 3 && body["status"] === status;
    return isError && typeof body["message"] === "string"
      ? String(body["code"])
      : "not an Error body";
  } catch {
    return "not JSON";
  }
}

/**
 * Derives the error code of a response to HEAD, which has no body. During a ban, both windows have
 * no requests left and end at the same time.
 */
function codeOfHead(status: number, minute?: WindowQuota, day?: WindowQuota): string | null {
  const isEmpty = minute?.remaining === 0 && day?.remaining === 0;
  const isBan = status === 429 && isEmpty && minute.resetSeconds === day.resetSeconds;
  return isBan ? "api_key_banned" : (CODES[status]?.[0] ?? null);
}
