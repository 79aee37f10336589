import type { AnyStoreOrdersError } from "./errors.ts";

/** A request that is about to be repeated. */
export interface Retry {
  /** Why. */
  readonly error: AnyStoreOrdersError;
  /** Which repetition this will be, from 1. */
  readonly attempt: number;
  /** How long the client waits before it, in milliseconds: never less than `Retry-After`. */
  readonly delayMs: number;
}

export interface ClientOptions {
  readonly apiKey: string;
  /** Where the service is, without `/v1`: `https://orders.example`. */
  readonly baseUrl: string | URL;
  /** Default: the platform's own. */
  readonly fetch?: typeof globalThis.fetch;
  /** The longest wait for an answer, and then for each further part of a list. Default 30,000. */
  readonly timeoutMs?: number;
  /** How often a request is repeated at most. Default 5; 0 never repeats. */
  readonly retries?: number;
  /**
   * The longest that one call may last with its repetitions, in milliseconds. Where waiting for
   * `Retry-After` would take longer, the call fails at once. Default 120,000.
   */
  readonly maxElapsedMs?: number;
  /**
   * Whether each call waits, however long, until the limits have room for it, so that it is never
   * refused. Default false. `cancelOrders` always does.
   */
  readonly pacing?: boolean;
  /** Called before each wait for a repetition. */
  readonly onRetry?: (retry: Retry) => void;
}

export interface Settings {
  readonly apiKey: string;
  /** Ends without a slash. */
  readonly baseUrl: string;
  readonly fetch: typeof globalThis.fetch;
  readonly timeoutMs: number;
  readonly retries: number;
  readonly maxElapsedMs: number;
  readonly pacing: boolean;
  readonly onRetry: (retry: Retry) => void;
}

/** @throws {TypeError | RangeError} that names the option which is wrong; never shows the key. */
export function checkOptions(options: ClientOptions): Settings {
  const { apiKey, pacing = false, onRetry = () => undefined } = options;
  if (typeof apiKey !== "string" || !/^[\x21-\x7e]+$/.test(apiKey)) {
    throw new TypeError("apiKey: expected an API key, without spaces or line breaks");
  }
  return {
    apiKey,
    baseUrl: checkBaseUrl(options.baseUrl),
    // Bound, as Workers and browsers refuse to call it on another object.
    fetch: options.fetch ?? globalThis.fetch.bind(globalThis),
    timeoutMs: checkNumber("timeoutMs", options.timeoutMs ?? 30_000, 1, 2 ** 31 - 1),
    retries: checkNumber("retries", options.retries ?? 5, 0, 1_000),
    maxElapsedMs: checkNumber("maxElapsedMs", options.maxElapsedMs ?? 120_000, 0, Infinity),
    pacing,
    onRetry,
  };
}

/** @throws {RangeError} that names the option. */
export function checkNumber(name: string, value: number, min: number, max: number): number {
  const isWhole = Number.isInteger(value) || value === Infinity;
  if (isWhole && value >= min && value <= max) return value;
  throw new RangeError(`${name}: expected a whole number from ${min} to ${max}, got ${value}`);
}

function checkBaseUrl(baseUrl: string | URL): string {
  const text = String(baseUrl);
  if (!URL.canParse(text)) throw new TypeError(`baseUrl: not a URL: ${JSON.stringify(text)}`);
  const { protocol, username, password, search, hash, origin, pathname } = new URL(text);
  if (protocol !== "https:" && protocol !== "http:") {
    throw new TypeError("baseUrl: expected http or https");
  }
  if (username + password + search + hash !== "") {
    throw new TypeError("baseUrl: expected no user, query or fragment");
  }
  return origin + pathname.replace(/\/+$/, "");
}
