/** The rest of a window, from the headers of an answer. */
export interface AnnouncedWindow {
  readonly limit: number;
  readonly remaining: number;
  /** Seconds until the window ends, rounded up. */
  readonly seconds: number;
}

/** An answer, with the times before and after it in Unix milliseconds. */
export interface Answer {
  readonly sentMs: number;
  readonly receivedMs: number;
  readonly status: number;
  /** The code of the Error body; `null` if there is none. */
  readonly code: string | null;
  readonly minute: AnnouncedWindow;
  readonly day: AnnouncedWindow;
  /** `null` if the header is missing. */
  readonly retryAfterSeconds: number | null;
}

/**
 * Reads an answer.
 *
 * @returns a description of the fault, if the answer is not as documented (docs/api.md,
 *   docs/limits.md).
 */
export async function readAnswer(
  response: Response,
  method: string,
  sentMs: number,
): Promise<Answer | string> {
  const text = await response.text();
  const { status, headers } = response;
  const receivedMs = Date.now();
  const policy = /^"minute";q=(\d+);w=60, "day";q=(\d+);w=86400$/.exec(
    headers.get("RateLimit-Policy") ?? "",
  );
  const left = /^"minute";r=(\d+);t=(\d+), "day";r=(\d+);t=(\d+)$/.exec(
    headers.get("RateLimit") ?? "",
  );
  const isBodiless = method === "HEAD" && text === "";
  const code =
    status < 400 ? null : isBodiless ? codeOfHead(status, left) : errorCode(text, status);
  const expected = CODES[status];
  if (expected === undefined || !expected.includes(code) || policy === null || left === null) {
    return `${status} ${JSON.stringify(Object.fromEntries(headers))} ${text.slice(0, 200)}`;
  }
  const retryAfter = headers.get("Retry-After");
  if ((retryAfter !== null) !== (status === 429 || status === 503)) return `${status} Retry-After`;
  const number = (match: RegExpExecArray, index: number) => Number(match[index]);
  return {
    sentMs,
    receivedMs,
    status,
    code,
    minute: { limit: number(policy, 1), remaining: number(left, 1), seconds: number(left, 2) },
    day: { limit: number(policy, 2), remaining: number(left, 3), seconds: number(left, 4) },
    retryAfterSeconds: retryAfter === null ? null : Number(retryAfter),
  };
}

/** The codes for each status (docs/api.md, Errors). 500 is always a fault. */
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
 * Derives the code of an answer to HEAD from the windows: in a ban both are empty and end together.
 */
function codeOfHead(status: number, left: RegExpExecArray | null): string | null {
  const isBan = status === 429 && left?.[1] === "0" && left[3] === "0" && left[2] === left[4];
  return isBan ? "api_key_banned" : (CODES[status]?.[0] ?? null);
}
