import type { AnyStoreOrdersError } from "./errors.ts";

export interface Retry {
  /** The error of the previous attempt. */
  readonly error: AnyStoreOrdersError;
  /** The number of this retry, from 1. */
  readonly attempt: number;
  /**
   * Milliseconds that the client waits before the retry: never less than `Retry-After`. A paced
   * call waits less if a newer response shows that requests are admitted again.
   */
  readonly delayMs: number;
}

/** A response whose body is not read yet. */
export interface ResponseInfo {
  readonly method: "GET" | "DELETE";
  readonly url: string;
  readonly status: number;
  readonly headers: Headers;
  /** Milliseconds from sending the request to receiving the headers of the response. */
  readonly elapsedMs: number;
}

/** Options that apply to each request of one call. */
export interface CallOptions {
  /** Aborts the call, which throws the signal's reason; a batch throws a BatchInterruptedError. */
  readonly signal?: AbortSignal | undefined;
  /** Overrides the client's `timeoutMs` for this call. */
  readonly timeoutMs?: number | undefined;
  /** Overrides the client's `retries` for this call. */
  readonly retries?: number | undefined;
  /** `X-Request-Id`: 1 to 255 letters, digits, `_`, `-` or `=`. Default: an id from the service. */
  readonly requestId?: string | undefined;
  /** Additional request headers. In browsers, the service's CORS settings must allow them. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

export interface ClientOptions {
  readonly apiKey: string;
  /** The URL of the service, such as `https://orders.example`, with or without `/v1`. */
  readonly baseUrl: string | URL;
  /** Whether `baseUrl` may be a plain `http:` URL of another machine. Default false. */
  readonly allowHttp?: boolean | undefined;
  /** The function that sends the requests. Default: `globalThis.fetch`. */
  readonly fetch?: typeof globalThis.fetch | undefined;
  /** The longest wait in ms for a response, and for each further part of a list. Default 30,000. */
  readonly timeoutMs?: number | undefined;
  /**
   * The maximum number of retries of a request. Default 5; with 0, the client never retries. A paced
   * call waits after a 429 however often it is refused, which uses up no retry.
   */
  readonly retries?: number | undefined;
  /**
   * The longest time in milliseconds from the start of a call to a retry. Default 120,000. The call
   * fails at once if the next retry would be later. `pacing` and `cancelOrders` disable this limit.
   */
  readonly maxElapsedMs?: number | undefined;
  /**
   * Whether each call waits, even for hours, until the rate limits admit the call, so that the
   * service does not refuse it. Default false. `cancelOrders` always waits.
   */
  readonly pacing?: boolean | undefined;
  readonly onRetry?: ((retry: Retry) => void) | undefined;
  /** Called for each response, before the client reads the body. */
  readonly onResponse?: ((response: ResponseInfo) => void) | undefined;
}

/** The validated options with defaults. `baseUrl` has neither `/v1` nor a slash at its end. */
export type Settings = {
  readonly [Option in keyof ClientOptions]-?: Exclude<ClientOptions[Option], undefined>;
} & { readonly baseUrl: string };

/** The `typeof` of each option in a set of options. */
type OptionTypes<Options> = Readonly<Record<keyof Options, string>>;

const CLIENT_OPTIONS: OptionTypes<ClientOptions> = {
  apiKey: "string",
  baseUrl: "string or object",
  allowHttp: "boolean",
  fetch: "function",
  timeoutMs: "number",
  retries: "number",
  maxElapsedMs: "number",
  pacing: "boolean",
  onRetry: "function",
  onResponse: "function",
};

export const CALL_OPTIONS: OptionTypes<CallOptions> = {
  signal: "object",
  timeoutMs: "number",
  retries: "number",
  requestId: "string",
  headers: "object",
};

/** Returns the options. Throws a TypeError for one that is unknown or has another type. */
export function checkTypes<T extends object>(options: T, types: OptionTypes<T>): T {
  for (const [name, value] of Object.entries(options)) {
    if (!Object.hasOwn(types, name)) throw new TypeError(`${name}: unknown option`);
    const type = types[name as keyof T];
    if (value === undefined || type.split(" or ").includes(typeof value)) continue;
    throw new TypeError(`${name}: expected a ${type}`);
  }
  return options;
}

/** Validates options and fills in defaults. Errors name the option and never show the API key. */
export function checkOptions(options: ClientOptions): Settings {
  checkTypes(options, CLIENT_OPTIONS);
  const { apiKey, allowHttp = false, pacing = false } = options;
  if (typeof apiKey !== "string" || !/^[\x21-\x7e]+$/.test(apiKey)) {
    throw new TypeError("apiKey: expected an API key, without spaces or line breaks");
  }
  return {
    apiKey,
    baseUrl: checkBaseUrl(options.baseUrl, allowHttp),
    allowHttp,
    // Bound to `globalThis`, because in Workers and browsers `fetch` throws with another `this`.
    fetch: options.fetch ?? globalThis.fetch.bind(globalThis),
    ...checkAttempts(options, { timeoutMs: 30_000, retries: 5 }),
    maxElapsedMs: checkNumber("maxElapsedMs", options.maxElapsedMs ?? 120_000, 0, Infinity),
    pacing,
    onRetry: options.onRetry ?? (() => undefined),
    onResponse: options.onResponse ?? (() => undefined),
  };
}

type Attempts = Pick<Settings, "timeoutMs" | "retries">;

export function checkAttempts(options: CallOptions | ClientOptions, defaults: Attempts): Attempts {
  const { timeoutMs = defaults.timeoutMs, retries = defaults.retries } = options;
  return {
    timeoutMs: checkNumber("timeoutMs", timeoutMs, 1, 2 ** 31 - 1),
    retries: checkNumber("retries", retries, 0, 1_000),
  };
}

/** Returns an integer or `Infinity` from `min` to `max`. Throws a RangeError for other values. */
export function checkNumber(name: string, value: number, min: number, max: number): number {
  const isWhole = Number.isInteger(value) || value === Infinity;
  if (isWhole && value >= min && value <= max) return value;
  throw new RangeError(`${name}: expected a whole number from ${min} to ${max}, got ${value}`);
}

/** The hosts of this machine, to which no network carries the API key. */
const LOOPBACK = /^(?:(?:.+\.)?localhost|127(?:\.\d+){3}|\[::1\])$/;

function checkBaseUrl(baseUrl: string | URL, allowHttp: boolean): string {
  const text = String(baseUrl);
  if (!URL.canParse(text)) throw new TypeError(`baseUrl: not a URL: ${JSON.stringify(text)}`);
  const url = new URL(text);
  const { protocol, hostname, username, password, search, hash, origin, pathname } = url;
  if (!/^https?:$/.test(protocol) || username + password + search + hash !== "") {
    throw new TypeError("baseUrl: expected http or https, and no user, query or fragment");
  }
  if (protocol === "http:" && !allowHttp && !LOOPBACK.test(hostname)) {
    throw new TypeError(
      "baseUrl: http would send the API key in the clear; use https, or set allowHttp: true",
    );
  }
  return origin + pathname.replace(/(?:\/v1)?\/*$/, "");
}

/** Returns the headers of each request of a call. Throws a TypeError that names a bad option. */
export function requestHeaders(
  apiKey: string,
  { requestId, headers = {} }: CallOptions,
  ifNoneMatch: string | null,
): Headers {
  if (requestId !== undefined && !/^[\w=-]{1,255}$/.test(requestId)) {
    throw new TypeError("requestId: expected 1 to 255 letters, digits, _, - or =");
  }
  if (ifNoneMatch !== null && !/^(?:W\/)?"[\x21\x23-\x7e]*"$/.test(ifNoneMatch)) {
    throw new TypeError('ifNoneMatch: expected an entity tag such as "1a2b", with its quotes');
  }
  const sent = new Headers(headers);
  const own = [
    ["Accept", "no option", "application/json"],
    ["Authorization", "apiKey", `Bearer ${apiKey}`],
    ["If-None-Match", "ifNoneMatch", ifNoneMatch],
    ["X-Request-Id", "requestId", requestId],
  ] as const;
  for (const [name, option, value] of own) {
    if (sent.has(name)) {
      throw new TypeError(`headers: the client sets ${name} itself; ${option} decides it`);
    }
    if (value != null) sent.set(name, value);
  }
  return sent;
}
