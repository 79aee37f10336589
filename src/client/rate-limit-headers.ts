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

/** Reads the windows that both headers of draft-ietf-httpapi-ratelimit-headers-11 describe. */
export function readWindows(headers: Headers): WindowQuota[] {
  const policies = parseItems(headers.get("RateLimit-Policy"));
  return [...parseItems(headers.get("RateLimit"))].flatMap(([name, window]) => {
    const policy = policies.get(name);
    const limit = wholeNumber(policy?.get("q"));
    const lengthSeconds = wholeNumber(policy?.get("w"));
    const remaining = wholeNumber(window.get("r"));
    const resetSeconds = wholeNumber(window.get("t"));
    if (typeof name !== "string" || !limit || !lengthSeconds) return [];
    if (remaining === null || resetSeconds === null) return [];
    return [{ name, limit, lengthSeconds, remaining, resetSeconds }];
  });
}

/** Reads `Retry-After` in seconds (RFC 9110, section 10.2.3); `null` if missing or malformed. */
export function readRetryAfterSeconds(headers: Headers): number | null {
  const text = headers.get("Retry-After")?.trim() ?? "";
  if (/^\d+$/.test(text)) return Number(text);
  const untilMs = parseHttpDate(text);
  if (untilMs === null) return null;
  // Subtracts the server's time (`Date`) if possible, because the client's clock may be wrong.
  const serverMs = Date.parse(headers.get("Date") ?? "");
  const nowMs = Number.isNaN(serverMs) ? Date.now() : serverMs;
  return Math.max(0, Math.ceil((untilMs - nowMs) / 1_000));
}

const TIME = String.raw`(?<time>\d\d:\d\d:\d\d)`;
const MONTH = "(?<month>[A-Z][a-z]{2})";
/** The formats of an HTTP-date (RFC 9110, section 5.6.7): IMF-fixdate, RFC 850 and asctime. */
const HTTP_DATES = [
  String.raw`[A-Z][a-z]{2}, (?<day>\d\d) ${MONTH} (?<year>\d{4}) ${TIME} GMT`,
  String.raw`[A-Z][a-z]{5,8}, (?<day>\d\d)-${MONTH}-(?<year>\d\d) ${TIME} GMT`,
  String.raw`[A-Z][a-z]{2} ${MONTH} (?<day>[ \d]\d) ${TIME} (?<year>\d{4})`,
].map((format) => new RegExp(`^${format}$`));

/** Returns the Unix time in milliseconds of an HTTP-date; `null` for any other text. */
function parseHttpDate(text: string): number | null {
  for (const format of HTTP_DATES) {
    const { day, month, year, time } = format.exec(text)?.groups ?? {};
    if (year === undefined) continue;
    // A year of two digits is in this century, or in the last if that is over 50 years from now.
    const fullYear = Number(year) + (year.length === 2 ? 2_000 : 0);
    const isLastCentury = year.length === 2 && fullYear > new Date().getUTCFullYear() + 50;
    const ms = Date.parse(
      `${day?.trim()} ${month} ${fullYear - (isLastCentury ? 100 : 0)} ${time} GMT`,
    );
    return Number.isNaN(ms) ? null : ms;
  }
  return null;
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
