import { readWindows } from "../../client/rate-limit-headers.ts";
import { differencesFromDocument, INTERNALS } from "../../openapi/documented-answer.ts";
import type { ErrorCode } from "../../rules/error-codes.ts";

export const LIST = "/v1/store/orders";
/** For what hangs: a slow machine breaks no promise. */
const TIMEOUT_MS = 60_000;
/** The number of characters read from a long list: those of 1,000 orders or more. */
const LIST_LENGTH = 200_000;
/** The largest allowed difference between the clocks of this machine and the service. */
const CLOCK_TOLERANCE_MS = 60_000;

/** Thrown if the service does not do what its documents promise. */
export class BrokenPromise extends Error {}

/** Thrown if a response may come from another version than the verified one. */
export class OtherVersionError extends Error {}

/** Thrown if a promise cannot be tried. The message is the reason. */
export class Untried extends Error {}

/** A service, and how to verify it. */
export interface Service {
  /** The address without `/v1`. */
  readonly url: string;
  readonly signal: AbortSignal;
  /** Headers of every request. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The id of the version that every response must name, except those of static files. */
  readonly version?: string;
  /** True skips the promises that use up the key's limit per minute. */
  readonly isReadOnly?: boolean;
  /** The promises about bad credentials that were kept before. An address may send only few. */
  readonly triedCredentials?: Set<string>;
}

/** The verification of one promise. */
export interface Trial extends Service {
  readonly promise: string;
  /** The secret of a key. */
  readonly key: string;
  /** Revokes the key. Set only for a new key on the Free plan that nothing else uses. */
  readonly revoke?: () => Promise<unknown>;
  /** The order to cancel, with its JSON in the list, and a shipped order, if there is one. */
  readonly orders?: { id: bigint; json: string; shippedId: bigint | undefined } | undefined;
  /** Responses that later tests reuse. `crowd`: the responses to many simultaneous requests. */
  readonly seen: { list?: Answer; crowd: readonly Answer[] };
}

/** A request, and what its response must be. */
export interface Call {
  /** By default that of the list of orders. */
  readonly path?: string;
  readonly method?: string;
  /** By default the verification's key; `null` sends none. */
  readonly authorization?: string | null;
  readonly headers?: Readonly<Record<string, string>>;
  /** False sends no `X-Request-Id`, and takes the response of any version: files name none. */
  readonly isTraced?: boolean;
  /** The `code` of an error response, which implies its status, or the status of another one. */
  readonly is?: ErrorCode | number | undefined;
  /** The value of each header; `null` if the response must not have the header. */
  readonly has?: Readonly<Record<string, string | null>>;
  /** Text that the body must contain. */
  readonly includes?: string;
}

/** @throws {BrokenPromise} with the message `fault` if a condition on a response is false. */
export function expectThat(answer: Answer, condition: boolean, fault: string): void {
  if (!condition) throw new BrokenPromise(`${fault} (request ${answer.requestId})`);
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
  const found = code ?? (status < 400 ? status : received(answer));
  expectThat(answer, is === undefined || is === found, `the answer is ${found}, not ${is}`);
  for (const [name, value] of Object.entries(has)) {
    const header = answer.headers.get(name);
    const fault = `${name} is ${header ?? "missing"}, not ${value ?? "missing"}`;
    expectThat(answer, header === value, fault);
  }
  expectThat(answer, body.includes(includes), `the body does not include ${includes}`);
}

/** Returns the status of a response and the beginning of its body. */
function received({ status, body }: Pick<Answer, "status" | "body">): string {
  return `${status} ${body.slice(0, 200).replaceAll(/\s+/g, " ")}`.trim();
}

/** A response that agrees with the OpenAPI document. */
export type Answer = Awaited<ReturnType<typeof call>>;

/**
 * Sends a request. The response must be as expected, match the OpenAPI document, return the sent
 * `X-Request-Id`, and have rate-limit headers that do not contradict each other.
 *
 * @throws {BrokenPromise} for any other response, and an Error without a complete response.
 * @throws {OtherVersionError} if the response does not name the version `trial.version`.
 */
export async function call(trial: Service & Partial<Trial>, request: Call) {
  const { url, key, version, signal, promise = "", triedCredentials } = trial;
  const { path = LIST, method = "GET", isTraced = true, authorization = `Bearer ${key}` } = request;
  const isRefused = request.is === "unauthorized";
  if (isRefused && triedCredentials?.has(promise)) throw new Untried("was tried before");
  const sentId = `verify-${crypto.randomUUID()}`;
  const sent = new Headers({
    "Accept-Encoding": "identity",
    ...trial.headers,
    ...request.headers,
    ...(isTraced && { "X-Request-Id": sentId }),
    ...(version !== undefined && { "X-Version": version }),
    ...(authorization !== null && { Authorization: authorization }),
  });
  const sentMs = Date.now();
  const limited = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]);
  const [{ status, headers }, body] = await fetch(url + path, {
    method,
    headers: sent,
    redirect: "manual",
    signal: limited,
  })
    .then(async (response) => [response, await readBeginning(response)] as const)
    .catch(({ message, cause }: Error) => {
      signal.throwIfAborted();
      const reason = `${cause instanceof Error ? cause.message : message} (request ${sentId})`;
      throw new Error(`${method} ${url}${path} has no complete answer: ${reason}`);
    });
  const [, code, message = ""] =
    (status >= 400 && /"code":"(.*?)","message":"(.*?)"[,}]/.exec(body)) || [];
  const windows = readWindows(headers);
  const answer = {
    method,
    path,
    status,
    headers,
    /** If it is a long list, a JSON array of the first orders. */
    body,
    /** The `code` of an error response. */
    code,
    requestId: headers.get("X-Request-Id") ?? sentId,
    /** The quotas of the minute and day windows; empty if the response has no `RateLimit` header. */
    windows,
    /** The requests left in the day window; NaN if unknown. */
    dayLeft: windows[1]?.remaining ?? NaN,
    sentMs,
    receivedMs: Date.now(),
  };
  if (version !== undefined && isTraced && headers.get("X-Version") !== version) {
    const fault = `is not answered by the version ${version}: ${received(answer)}`;
    throw new OtherVersionError(`${method} ${path} ${fault}`);
  }
  const fault = [
    isTraced && answer.requestId !== sentId && "X-Request-Id does not repeat the caller's",
    ...differencesFromDocument(answer, { isBehindEdge: true }),
    contradictionIn(answer),
    INTERNALS.test(message) && `the message shows internals: ${message}`,
  ].find(Boolean);
  expectThat(answer, !fault, `${method} ${path} is answered ${received(answer)}: ${fault}`);
  expectAnswer(answer, request);
  if (isRefused) triedCredentials?.add(promise);
  return answer;
}

/** Reads a body. Ends a long list after 200,000 characters, and closes its array. */
async function readBeginning({ body }: Response): Promise<string> {
  let text = "";
  for await (const part of body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += part;
    if (text.length > LIST_LENGTH) return `${text.slice(0, text.lastIndexOf(",{"))}]`;
  }
  return text;
}

/**
 * Returns how `X-RateLimit-*` contradicts `RateLimit`, or `false`. `X-RateLimit-*` must describe the
 * window with the fewest requests left; on a tie, the window that ends later.
 */
function contradictionIn({ headers, windows, sentMs, receivedMs }: Answer): string | false {
  const [window, other] = windows.toSorted(
    (one, two) => one.remaining - two.remaining || two.resetSeconds - one.resetSeconds,
  );
  if (window === undefined || other === undefined) return false;
  const [limit, remaining, reset = 0] = ["Limit", "Remaining", "Reset"].map((name) =>
    Number(headers.get(`X-RateLimit-${name}`)),
  );
  // Rounded to seconds, both windows can seem to end at the same time.
  const isTie = window.remaining === other.remaining && window.resetSeconds === other.resetSeconds;
  const decidedMs = (reset - window.resetSeconds) * 1_000;
  const agrees =
    (isTie || limit === window.limit) &&
    remaining === window.remaining &&
    decidedMs >= sentMs - CLOCK_TOLERANCE_MS &&
    decidedMs <= receivedMs + CLOCK_TOLERANCE_MS;
  const stated = `${headers.get("RateLimit")}: is this machine's clock right?`;
  return !agrees && `X-RateLimit-* is ${limit}, ${remaining}, ${reset}, but RateLimit is ${stated}`;
}
