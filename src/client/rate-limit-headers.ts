import { type BareItem, parseList } from "structured-headers";

/** A rate-limit window as the headers of a response describe it. */
export interface WindowQuota {
  readonly name: string;
  /** The number of requests that the window admits. */
  readonly limit: number;
  readonly lengthSeconds: number;
  readonly remaining: number;
  /** Seconds until the window ends, rounded up. */
  readonly resetSeconds: number;
}

/** The rate-limit data of one response. */
export interface Limits {
  /** The windows `minute` and `day`, in the order of the `RateLimit` header. */
  readonly windows: readonly WindowQuota[];
  /** `Retry-After` in seconds; `null` if the header was missing or malformed. */
  readonly retryAfterSeconds: number | null;
  /** The time when the response arrived. All seconds in these limits count from this time. */
  readonly answeredAt: Date;
}

/**
 * Reads the windows that both headers of draft-ietf-httpapi-ratelimit-headers-11 describe, or of the
 * next draft, which renames `r` to `a` and `t` to `w`.
 */
export function readWindows(headers: Headers): WindowQuota[] {
  const policies = parseItems(headers.get("RateLimit-Policy"));
  return [...parseItems(headers.get("RateLimit"))].flatMap(([name, window]) => {
    const policy = policies.get(name);
    const limit = wholeNumber(policy?.get("q"));
    const lengthSeconds = wholeNumber(policy?.get("w"));
    const remaining = wholeNumber(window.get("r") ?? window.get("a"));
    const resetSeconds = wholeNumber(window.get("t") ?? window.get("w"));
    if (typeof name !== "string" || !limit || !lengthSeconds) return [];
    if (remaining === null || resetSeconds === null) return [];
    return [{ name, limit, lengthSeconds, remaining, resetSeconds }];
  });
}

/** The three formats of an HTTP-date (RFC 9110, section 5.6.7), of which asctime lacks `GMT`. */
const HTTP_DATE = /^[A-Z][a-z]{2,8},? [\w -]+ \d\d:\d\d:\d\d(?: GMT| \d{4})$/;

/**
 * Reads `Retry-After` in seconds (RFC 9110, section 10.2.3); `null` if missing or malformed. A proxy may
 * add a second one: then the longer one counts.
 */
export function readRetryAfterSeconds(headers: Headers): number | null {
  // `Headers` joins several with commas, of which an HTTP-date has one after its weekday.
  const texts = headers.get("Retry-After")?.split(/(?<![A-Z][a-z]{2,8}),/) ?? [];
  const found = texts.map((text) => parseRetryAfter(text.trim(), headers.get("Date") ?? ""));
  const seconds = found.filter((each) => each !== null);
  return seconds.length === 0 ? null : Math.max(...seconds);
}

function parseRetryAfter(text: string, serverDate: string): number | null {
  if (/^\d+$/.test(text)) return Number(text);
  // `Date.parse` alone would also take "1.5" or "-1" for a date.
  const untilMs = HTTP_DATE.test(text) ? Date.parse(text.replace(/(?: GMT)?$/, " GMT")) : NaN;
  if (Number.isNaN(untilMs)) return null;
  // Subtracts the server's time (`Date`) if possible, because the client's clock may be wrong.
  const serverMs = Date.parse(serverDate);
  const nowMs = Number.isNaN(serverMs) ? Date.now() : serverMs;
  return Math.max(0, Math.ceil((untilMs - nowMs) / 1_000));
}

/** Maps each item of a structured field (RFC 9651) to its parameters. Empty if malformed. */
function parseItems(text: string | null): Map<unknown, ReadonlyMap<string, BareItem>> {
  try {
    return new Map<unknown, ReadonlyMap<string, BareItem>>(parseList(text ?? ""));
  } catch {
    return new Map();
  }
}

function wholeNumber(value: BareItem | undefined): number | null {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 ? value : null;
}
