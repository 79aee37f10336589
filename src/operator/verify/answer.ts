import { readWindows, type WindowQuota } from "../../client/rate-limit-headers.ts";
import { differencesFromDocument, INTERNALS } from "../../openapi/documented-answer.ts";
import { INT64_MIN } from "../../rules/int64.ts";
import { BrokenPromise, NoAnswerError, OtherVersionError, type Trial } from "./service-promise.ts";

export const LIST = "/v1/store/orders";
const TIMEOUT_MS = 20_000;
/** The number of orders read from a long list, unless a test looks for a later order. */
const ORDERS_READ = 1_000;
/** The largest allowed difference between the clocks of this machine and the service. */
const CLOCK_TOLERANCE_SECONDS = 60;

export interface Call {
  /** By default the path of the list of orders. */
  readonly path?: string;
  readonly method?: string;
  /** True sends the verification's key as the bearer token. */
  readonly withKey?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
  /** False sends no `X-Request-Id`. */
  readonly sendsId?: boolean;
  /** True if Cloudflare responds with a file, without running the Worker. */
  readonly isStatic?: boolean;
  /** Reads a list at least until the first order with an id larger than this. */
  readonly readTo?: bigint;
}

/** A response that agrees with the OpenAPI document. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  /** The body; if it is a long list, a JSON array of the first orders. */
  readonly body: string;
  /** The `code` of an error response; `null` if there is none. */
  readonly code: string | null;
  readonly requestId: string;
  /** The quotas of the minute and day windows; empty if the response has no `RateLimit` header. */
  readonly windows: readonly WindowQuota[];
  /** Unix time in milliseconds. */
  readonly receivedMs: number;
}

export interface Expected {
  readonly status: number;
  readonly code?: string;
  /** The value of each header; `null` if the response must not have the header. */
  readonly headers?: Readonly<Record<string, string | null>>;
  /** Text that the body must contain. */
  readonly body?: string;
}

/** @throws {BrokenPromise} with the message `fault` if a condition on a response is false. */
export function expectThat(answer: Answer, condition: boolean, fault: string): void {
  if (!condition) throw new BrokenPromise(fault, answer.requestId);
}

/** @throws {BrokenPromise} for the first difference between a response and the expected one. */
export function expectAnswer(answer: Answer, { status, code, headers = {}, body }: Expected): void {
  const isExpected = answer.status === status && (code === undefined || answer.code === code);
  const found = answer.code ?? answer.status;
  expectThat(answer, isExpected, `the answer is ${found}, not ${code ?? status}`);
  for (const [name, value] of Object.entries(headers)) {
    const header = answer.headers.get(name);
    const fault = `${name} is ${header ?? "missing"}, not ${value ?? "missing"}`;
    expectThat(answer, header === value, fault);
  }
  const isIncluded = body === undefined || answer.body.includes(body);
  expectThat(answer, isIncluded, `the body does not include ${body}`);
}

/**
 * Sends a request. The response must match `expected` and the OpenAPI document, return the sent
 * `X-Request-Id`, and have rate-limit headers that do not contradict each other.
 *
 * @throws {BrokenPromise} for any other response, and {NoAnswerError} without a complete response.
 * @throws {OtherVersionError} if the response does not name the version `trial.version`.
 */
export async function call(
  trial: Trial,
  { path = LIST, method = "GET", withKey, headers, sendsId = true, isStatic, readTo }: Call,
  expected?: Expected,
): Promise<Answer> {
  const { key, version, clock } = trial;
  const sentId = `verify-${crypto.randomUUID()}`;
  const repeatsId = sendsId && !isStatic;
  const request = new Headers({ "Accept-Encoding": "identity", ...trial.headers, ...headers });
  if (repeatsId) request.set("X-Request-Id", sentId);
  if (version !== undefined) request.set("X-Version", version);
  if (withKey) request.set("Authorization", `Bearer ${key}`);
  const received = receive(trial, path, { method, headers: request }, readTo);
  const { response, body } = await received.catch((error: Error) => {
    trial.signal.throwIfAborted();
    const reason = error.cause instanceof Error ? error.cause.message : error.message;
    throw new NoAnswerError(`${method} ${path} has no complete answer: ${reason}`, sentId);
  });
  if (version !== undefined && !isStatic && response.headers.get("X-Version") !== version) {
    throw new OtherVersionError(`${method} ${path} is not answered by the version ${version}`);
  }
  const { status } = response;
  const { code = null, message = "" } = status < 400 || method === "HEAD" ? {} : errorOf(body);
  const answer = {
    status,
    headers: response.headers,
    body,
    code,
    requestId: response.headers.get("X-Request-Id") ?? sentId,
    windows: readWindows(response.headers),
    receivedMs: clock.now(),
  };
  const fault = [
    repeatsId && answer.requestId !== sentId && "X-Request-Id does not repeat the caller's",
    ...differencesFromDocument({ ...answer, method, path }, { isBehindEdge: true }),
    contradictionIn(answer),
    INTERNALS.test(message) && `the message shows internals: ${message}`,
  ].find(Boolean);
  expectThat(answer, !fault, `${method} ${path} is answered ${status}: ${fault}`);
  if (expected !== undefined) expectAnswer(answer, expected);
  return answer;
}

async function receive(
  { url, send, signal }: Trial,
  path: string,
  init: RequestInit,
  readTo: bigint | undefined,
): Promise<{ response: Response; body: string }> {
  const timeout = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]);
  const response = await send(url + path, { ...init, redirect: "manual", signal: timeout });
  const isList = response.status === 200 && path.startsWith("/v1/");
  return { response, body: isList ? await readOrders(response, readTo) : await response.text() };
}

/**
 * Reads a list until 1,000 orders have arrived and an id is larger than `readTo`. Then cancels the
 * response, and adds the missing `]`.
 */
async function readOrders({ body }: Response, readTo = INT64_MIN): Promise<string> {
  let text = "";
  for await (const part of body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += part;
    const ids = [...text.matchAll(/\{"id":(-?\d+)[,}]/g)];
    if (ids.length > ORDERS_READ && BigInt(ids.at(-1)?.[1] ?? 0) > readTo) {
      return `${text.slice(0, text.lastIndexOf("},{") + 1)}]`;
    }
  }
  return text;
}

/**
 * Returns how `X-RateLimit-*` contradicts `RateLimit`, or `null`. `X-RateLimit-*` must describe the
 * window with the fewest requests left; on a tie, the window that ends later.
 */
function contradictionIn({ headers, windows, receivedMs }: Answer): string | null {
  const [window, other] = windows.toSorted(
    (one, two) => one.remaining - two.remaining || two.resetSeconds - one.resetSeconds,
  );
  if (window === undefined || other === undefined) return null;
  const header = (name: string) => Number(headers.get(`X-RateLimit-${name}`));
  // Rounded to seconds, both windows can seem to end at the same time.
  const isTie = window.remaining === other.remaining && window.resetSeconds === other.resetSeconds;
  if (header("Limit") !== window.limit && !isTie) {
    return `X-RateLimit-Limit is ${header("Limit")}, but RateLimit describes ${window.limit}`;
  }
  if (header("Remaining") !== window.remaining) {
    return `X-RateLimit-Remaining is ${header("Remaining")}, but RateLimit describes ${window.remaining}`;
  }
  const skewSeconds = header("Reset") - (receivedMs / 1_000 + window.resetSeconds);
  if (Math.abs(skewSeconds) <= CLOCK_TOLERANCE_SECONDS) return null;
  return `X-RateLimit-Reset is ${header("Reset")}, but RateLimit ends in ${window.resetSeconds} s`;
}

function errorOf(body: string): { readonly code?: string; readonly message?: string } {
  try {
    return Object(JSON.parse(body)) as { code?: string; message?: string };
  } catch {
    return {};
  }
}
