import { type BareItem, type List, parseList } from "structured-headers";

/** A window as the headers of an answer describe it. */
export interface WindowQuota {
  readonly name: string;
  /** Requests that the window admits. */
  readonly limit: number;
  readonly lengthSeconds: number;
  readonly remaining: number;
  /** Seconds until the window ends, rounded up. */
  readonly resetSeconds: number;
}

/** What an answer said about the limits. */
export interface Limits {
  /** The windows in the order of the headers: the service names them `minute` and `day`. */
  readonly windows: readonly WindowQuota[];
  /** `Retry-After` in seconds; `null` if the answer had none. */
  readonly retryAfterSeconds: number | null;
  /** The time of the answer, from which all seconds count. */
  readonly answeredAt: Date;
}

/**
 * Reads the windows from `RateLimit` and `RateLimit-Policy`
 * (draft-ietf-httpapi-ratelimit-headers-11).
 *
 * @returns the windows in both headers: none if a header is missing or malformed.
 */
export function readWindows(headers: Headers): WindowQuota[] {
  const policies = parseItems(headers.get("RateLimit-Policy"));
  return [...parseItems(headers.get("RateLimit"))].flatMap(([name, window]) => {
    const policy = policies.get(name);
    const limit = wholeNumber(policy?.get("q"));
    const lengthSeconds = wholeNumber(policy?.get("w"));
    const remaining = wholeNumber(window.get("r"));
    const resetSeconds = wholeNumber(window.get("t"));
    if (!limit || !lengthSeconds || remaining === null || resetSeconds === null) return [];
    return [{ name, limit, lengthSeconds, remaining, resetSeconds }];
  });
}

/**
 * Reads `Retry-After`, in seconds or as a date (RFC 9110, section 10.2.3).
 *
 * @returns seconds, never negative; `null` if the header is missing or malformed.
 */
export function readRetryAfterSeconds(headers: Headers): number | null {
  const text = headers.get("Retry-After")?.trim() ?? "";
  if (/^\d+$/.test(text)) return Number(text);
  const untilMs = Date.parse(text);
  if (Number.isNaN(untilMs)) return null;
  // Relative to `Date`, the clock of the server, if the answer has it.
  const serverMs = Date.parse(headers.get("Date") ?? "");
  const nowMs = Number.isNaN(serverMs) ? Date.now() : serverMs;
  return Math.max(0, Math.ceil((untilMs - nowMs) / 1_000));
}

/** Parses a structured field (RFC 9651) into the parameters of each item, by the item's name. */
function parseItems(text: string | null): Map<string, ReadonlyMap<string, BareItem>> {
  const items = new Map<string, ReadonlyMap<string, BareItem>>();
  for (const [name, parameters] of parseOrNone(text ?? "")) {
    if (typeof name === "string") items.set(name, parameters);
  }
  return items;
}

function parseOrNone(text: string): List {
  try {
    return parseList(text);
  } catch {
    return [];
  }
}

function wholeNumber(value: BareItem | undefined): number | null {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 ? value : null;
}
