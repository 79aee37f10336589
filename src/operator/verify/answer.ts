import { readWindows, type WindowQuota } from "../../client/rate-limit-headers.ts";
import {
  differencesFromDocument,
  INTERNALS,
  type SeenAnswer,
} from "../../openapi/documented-answer.ts";
import type { ErrorCode } from "../../rules/error-codes.ts";
import { INT64_MIN } from "../../rules/int64.ts";
import {
  BrokenPromise,
  NoAnswerError,
  OtherVersionError,
  type Trial,
  Untried,
} from "./service-promise.ts";

export const LIST = "/v1/store/orders";
const TIMEOUT_MS = 20_000;
/** The number of orders read from a long list, unless a test looks for a later order. */
const ORDERS_READ = 1_000;
/** The largest allowed difference between the clocks of this machine and the service. */
const CLOCK_TOLERANCE_SECONDS = 60;

/** A request, and what its response must be. */
export interface Call {
  /** By default the path of the list of orders. */
  readonly path?: string;
  readonly method?: string;
  /** By default the verification's key, except for a static file; `null` sends none. */
  readonly authorization?: string | null;
  readonly headers?: Readonly<Record<string, string>>;
  /** False sends no `X-Request-Id`. */
  readonly sendsId?: boolean;
  /** True if Cloudflare responds with a file, without running the Worker. */
  readonly isStatic?: boolean;
  /** Reads a list at least until the first order with an id larger than this. */
  readonly readTo?: bigint;
  /** The `code` of an error response, which implies its status, or the status of another one. */
  readonly is?: ErrorCode | number | undefined;
  /** The value of each header; `null` if the response must not have the header. */
  readonly has?: Readonly<Record<string, string | null>>;
  /** Text that the body must contain. */
  readonly includes?: string;
}

/** A response that agrees with the OpenAPI document. */
export interface Answer extends SeenAnswer {
  /** The body; if it is a long list, a JSON array of the first orders. */
  readonly body: string;
  /** The `code` of an error response; otherwise `undefined`. */
  readonly code: string | undefined;
  readonly requestId: string;
  /** The quotas of the minute and day windows; empty if the response has no `RateLimit` header. */
  readonly windows: readonly WindowQuota[];
  /** Unix time in milliseconds. */
  readonly receivedMs: number;
}

/** @throws {BrokenPromise} with the message `fault` if a condition on a response is false. */
export function expectThat(answer: Answer, condition: boolean, fault: string): void {
  if (!condition) throw new BrokenPromise(fault, answer.requestId);
}

/**
 * @throws {BrokenPromise} for the first difference between a response and the expected one.
 * @throws {Untried} if a 401 is expected, but this address may send no more bad credentials.
 */
export function expectAnswer(answer: Answer, { is, has = {}, includes = "" }: Call): void {
  const { status, code, body } = answer;
  if (is === "unauthorized" && status === 429) {
    throw new Untried("this address has sent too many bad credentials");
  }
  const found =
    code ?? (status < 400 ? status : `${status} ${body.slice(0, 200).replaceAll(/\s+/g, " ")}`);
  expectThat(answer, is === undefined || is === found, `the answer is ${found}, not ${is}`);
  for (const [name, value] of Object.entries(has)) {
    const header = answer.headers.get(name);
    const fault = `${name} is ${header ?? "missing"}, not ${value ?? "missing"}`;
    expectThat(answer, header === value, fault);
  }
  expectThat(answer, body.includes(includes), `the body does not include ${includes}`);
}

/**
 * Sends a request. The response must be as expected, match the OpenAPI document, return the sent
 * `X-Request-Id`, and have rate-limit headers that do not contradict each other.
 *
 * @throws {BrokenPromise} for any other response, and {NoAnswerError} without a complete response.
 * @throws {OtherVersionError} if the response does not name the version `trial.version`.
 */
export async function call(trial: Trial, request: Call): Promise<Answer> {
  const { key, version, signal, clock, promise, triedCredentials } = trial;
  const { path = LIST, method = "GET", isStatic = false, sendsId = !isStatic } = request;
  const { authorization = isStatic ? null : `Bearer ${key}` } = request;
  const isRefused = request.is === "unauthorized";
  if (isRefused && triedCredentials?.has(promise)) throw new Untried("was tried before");
  const sentId = `verify-${crypto.randomUUID()}`;
  const all = { "Accept-Encoding": "identity", ...trial.headers, ...request.headers };
  const headers = new Headers(all);
  if (sendsId) headers.set("X-Request-Id", sentId);
  if (version !== undefined) headers.set("X-Version", version);
  if (authorization !== null) headers.set("Authorization", authorization);
  const timeout = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]);
  const init = { method, headers, redirect: "manual", signal: timeout } as const;
  const receive = async () => {
    const response = await trial.send(trial.url + path, init);
    const isList = response.status === 200 && path.startsWith("/v1/");
    const body = isList ? readOrders(response, request.readTo) : response.text();
    return { response, body: await body };
  };
  const { response, body } = await receive().catch(({ message, cause }: Error) => {
    signal.throwIfAborted();
    const reason = cause instanceof Error ? cause.message : message;
    throw new NoAnswerError(`${method} ${path} has no complete answer: ${reason}`, sentId);
  });
  if (version !== undefined && !isStatic && response.headers.get("X-Version") !== version) {
    throw new OtherVersionError(`${method} ${path} is not answered by the version ${version}`);
  }
  const { status } = response;
  const errorField = (name: string) =>
    status < 400 ? undefined : new RegExp(`"${name}":"(.*?)"[,}]`).exec(body)?.[1];
  const answer = {
    method,
    path,
    status,
    headers: response.headers,
    body,
    code: errorField("code"),
    requestId: response.headers.get("X-Request-Id") ?? sentId,
    windows: readWindows(response.headers),
    receivedMs: clock.now(),
  };
  const message = errorField("message") ?? "";
  const fault = [
    sendsId && answer.requestId !== sentId && "X-Request-Id does not repeat the caller's",
    ...differencesFromDocument(answer, { isBehindEdge: true }),
    contradictionIn(answer),
    INTERNALS.test(message) && `the message shows internals: ${message}`,
  ].find(Boolean);
  expectThat(answer, !fault, `${method} ${path} is answered ${status}: ${fault}`);
  expectAnswer(answer, request);
  if (isRefused) triedCredentials?.add(promise);
  return answer;
}

/**
 * Reads a list until 1,000 orders have arrived and an id is larger than `readTo`. Then cancels the
 * response, and adds the missing `]`.
 */
async function readOrders({ body }: Response, readTo = INT64_MIN): Promise<string> {
  const read: string[] = [];
  let rest = "";
  for await (const part of body?.pipeThrough(new TextDecoderStream()) ?? []) {
    const orders = (rest + part).split(/(?<=\}),/);
    rest = orders.pop() ?? "";
    read.push(...orders);
    const [, lastId = INT64_MIN] = /"id":(-?\d+)/.exec(read.at(-1) ?? "") ?? [];
    if (read.length > ORDERS_READ && BigInt(lastId) > readTo) return `${read.join()}]`;
  }
  return [...read, rest].join();
}

/**
 * Returns how `X-RateLimit-*` contradicts `RateLimit`, or `false`. `X-RateLimit-*` must describe the
 * window with the fewest requests left; on a tie, the window that ends later.
 */
function contradictionIn({ headers, windows, receivedMs }: Answer): string | false {
  const [window, other] = windows.toSorted(
    (one, two) => one.remaining - two.remaining || two.resetSeconds - one.resetSeconds,
  );
  if (window === undefined || other === undefined) return false;
  const sent = (name: string) => Number(headers.get(`X-RateLimit-${name}`));
  const differs = (name: string, value: number) =>
    sent(name) !== value && `X-RateLimit-${name} is ${sent(name)}, but RateLimit says ${value}`;
  // Rounded to seconds, both windows can seem to end at the same time.
  const isTie = window.remaining === other.remaining && window.resetSeconds === other.resetSeconds;
  const skewSeconds = sent("Reset") - (receivedMs / 1_000 + window.resetSeconds);
  const isSkewed = Math.abs(skewSeconds) > CLOCK_TOLERANCE_SECONDS;
  const end = `but RateLimit ends in ${window.resetSeconds} s: is this machine's clock right?`;
  return (
    (!isTie && differs("Limit", window.limit)) ||
    differs("Remaining", window.remaining) ||
    (isSkewed && `X-RateLimit-Reset is ${sent("Reset")}, ${end}`)
  );
}
