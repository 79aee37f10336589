import { type BareItem, type List, parseList } from "structured-headers";

/** One window as the service describes it on an answer. */
export interface WindowQuota {
  readonly name: string;
  /** How many requests the window admits. */
  readonly limit: number;
  readonly lengthSeconds: number;
  readonly remaining: number;
  /** Whole seconds, rounded up, until the window ends. */
  readonly resetSeconds: number;
}

/**
 * Reads both windows from `RateLimit` and `RateLimit-Policy`
 * (draft-ietf-httpapi-ratelimit-headers-11).
 *
 * @returns the windows that both describe: none where the headers are missing or malformed.
 */
export function readWindows(headers: Headers): WindowQuota[] {
  const policies = parseItems(headers.get("RateLimit-Policy"));
  return [...parseItems(headers.get("RateLimit"))].flatMap(([name, window]) => {
    const policy = policies.get(name);
    const limit = whole(policy?.get("q"));
    const lengthSeconds = whole(policy?.get("w"));
    const remaining = whole(window.get("r"));
    const resetSeconds = whole(window.get("t"));
    if (!limit || !lengthSeconds || remaining === null || resetSeconds === null) return [];
    return [{ name, limit, lengthSeconds, remaining, resetSeconds }];
  });
}

/**
 * Reads `Retry-After`, in seconds or as a date (RFC 9110, section 10.2.3).
 *
 * @returns seconds, never negative; `null` where it is missing or malformed.
 */
export function readRetryAfterSeconds(headers: Headers): number | null {
  const text = headers.get("Retry-After")?.trim() ?? "";
  if (/^\d+$/.test(text)) return Number(text);
  const untilMs = Date.parse(text);
  if (Number.isNaN(untilMs)) return null;
  // By the clock that wrote the date, where it says what it shows.
  const serverMs = Date.parse(headers.get("Date") ?? "");
  const nowMs = Number.isNaN(serverMs) ? Date.now() : serverMs;
  return Math.max(0, Math.ceil((untilMs - nowMs) / 1_000));
}

/** The parameters of each item of a structured field, by the item's name. */
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

function whole(value: BareItem | undefined): number | null {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 ? value : null;
}
