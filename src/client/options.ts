import type { AnyStoreOrdersError } from "./errors.ts";

/** A retry that is about to begin. */
export interface Retry {
  /** The error of the attempt before. */
  readonly error: AnyStoreOrdersError;
  /** The number of this retry, from 1. */
  readonly attempt: number;
  /** Milliseconds that the client waits first: never less than `Retry-After`. */
  readonly delayMs: number;
}

/** An answer whose body is not read yet. */
export interface ResponseInfo {
  readonly method: "GET" | "DELETE";
  readonly url: string;
  readonly status: number;
  readonly headers: Headers;
  /** Milliseconds from sending the request to its answer. */
  readonly elapsedMs: number;
}

/** Options of one call, for each of its requests. */
export interface CallOptions {
  /** Ends the call at once; the call then throws the signal's reason. */
  readonly signal?: AbortSignal;
  /** Takes the place of the client's `timeoutMs`. */
  readonly timeoutMs?: number;
  /** Takes the place of the client's `retries`. */
  readonly retries?: number;
  /** Sent as `X-Request-Id`: 1 to 255 letters, digits, `_`, `-` or `=`. Default: the service makes one. */
  readonly requestId?: string;
  /** Further headers. A browser sends only those that the service allows to other origins. */
  readonly headers?: Readonly<Record<string, string>>;
}

export interface ClientOptions {
  readonly apiKey: string;
  /** The address of the service, such as `https://orders.example`, with or without `/v1`. */
  readonly baseUrl: string | URL;
  /** Sends the requests. Default: `globalThis.fetch`. */
  readonly fetch?: typeof globalThis.fetch;
  /** The longest wait for an answer, and for each further part of a list. Default 30,000. */
  readonly timeoutMs?: number;
  /** The most retries of a request. Default 5; 0 never retries. */
  readonly retries?: number;
  /**
   * The longest time of one call with its retries, in milliseconds. If the wait for `Retry-After`
   * would take longer, the call fails at once. Default 120,000.
   */
  readonly maxElapsedMs?: number;
  /**
   * Whether each call waits until the limits have room, even for hours, so that the service does
   * not refuse it. Default false. `cancelOrders` always waits.
   */
  readonly pacing?: boolean;
  /** Called before the wait of each retry. */
  readonly onRetry?: (retry: Retry) => void;
  /** Called for each answer, before its body is read. */
  readonly onResponse?: (response: ResponseInfo) => void;
}

/** The options after checks, with defaults for all that are missing. */
export interface Settings {
  readonly apiKey: string;
  /** Ends without `/v1` and without a slash. */
  readonly baseUrl: string;
  readonly fetch: typeof globalThis.fetch;
  readonly timeoutMs: number;
  readonly retries: number;
  readonly maxElapsedMs: number;
  readonly pacing: boolean;
  readonly onRetry: (retry: Retry) => void;
  readonly onResponse: (response: ResponseInfo) => void;
}

/**
 * Checks the options.
 *
 * @throws {TypeError | RangeError} that names the wrong option and never shows the key.
 */
export function checkOptions(options: ClientOptions): Settings {
  const { apiKey, pacing = false } = options;
  if (typeof apiKey !== "string" || !/^[\x21-\x7e]+$/.test(apiKey)) {
    throw new TypeError("apiKey: expected an API key, without spaces or line breaks");
  }
  return {
    apiKey,
    baseUrl: checkBaseUrl(options.baseUrl),
    // Bound, because Workers and browsers refuse to call `fetch` on another object.
    fetch: options.fetch ?? globalThis.fetch.bind(globalThis),
    ...checkAttempts(options, { timeoutMs: 30_000, retries: 5 }),
    maxElapsedMs: checkNumber("maxElapsedMs", options.maxElapsedMs ?? 120_000, 0, Infinity),
    pacing,
    onRetry: options.onRetry ?? (() => undefined),
    onResponse: options.onResponse ?? (() => undefined),
  };
}

type Attempts = Pick<Settings, "timeoutMs" | "retries">;

/**
 * Checks the options that a call may set for itself.
 *
 * @throws {RangeError} that names the wrong option.
 */
export function checkAttempts(options: Partial<Attempts>, defaults: Attempts): Attempts {
  const { timeoutMs, retries } = options;
  return {
    timeoutMs: checkNumber("timeoutMs", timeoutMs ?? defaults.timeoutMs, 1, 2 ** 31 - 1),
    retries: checkNumber("retries", retries ?? defaults.retries, 0, 1_000),
  };
}

/**
 * Checks that an option is a whole number, or Infinity if `max` allows it.
 *
 * @throws {RangeError} that names the option.
 */
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
  return origin + pathname.replace(/(?:\/v1)?\/*$/, "");
}
