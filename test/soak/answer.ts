/** What is left of one window, as an answer says. */
export interface AnnouncedWindow {
  readonly limit: number;
  readonly remaining: number;
  /** Until the window ends, rounded up. */
  readonly seconds: number;
}

/** One answer with the times between which the service gave it, in Unix milliseconds. */
export interface Answer {
  readonly sentMs: number;
  readonly receivedMs: number;
  readonly status: number;
  /** Of the Error body; `null` where there is none. */
  readonly code: string | null;
  readonly minute: AnnouncedWindow;
  readonly day: AnnouncedWindow;
  /** `null` where there is no such header. */
  readonly retryAfterSeconds: number | null;
}

/** Reads an answer. @returns what is wrong with it where it is none that is documented. */
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

/** Contract, section 1; 500 is no answer to expect. */
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
    return isError && typeof body["message"] === "string" ? String(body["code"]) : "no Error body";
  } catch {
    return "no JSON";
  }
}

/** An answer to HEAD has no body: a ban shows in that both windows end with it. */
function codeOfHead(status: number, left: RegExpExecArray | null): string | null {
  const isBan = status === 429 && left?.[1] === "0" && left[3] === "0" && left[2] === left[4];
  return isBan ? "api_key_banned" : (CODES[status]?.[0] ?? null);
}
