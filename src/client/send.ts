import { follow, orAbort } from "./abort.ts";
import {
  type AnswerDetails,
  ApiError,
  NetworkError,
  NotModifiedError,
  StoreOrdersError,
  TimeoutError,
  UnexpectedAnswerError,
} from "./errors.ts";
import type { ResponseInfo, Settings } from "./options.ts";
import type { Gate } from "./pacer.ts";
import { readRetryAfterSeconds } from "./rate-limit-headers.ts";

/** The settings of one call's requests. If `isPaced`, requests wait until the limits admit them. */
export interface Call {
  readonly settings: Settings;
  readonly gate: Gate;
  readonly isPaced: boolean;
  readonly signal: AbortSignal | undefined;
  readonly headers: Headers;
}

/** The HTTP response to one request. */
export interface Answer extends AnswerDetails {
  readonly headers: Headers;
  /** Reads the next part of the body; returns `undefined` at the end of the body. */
  read(): Promise<Uint8Array | undefined>;
  /** Stops listening to the caller's signal. Cancels the request unless the body was fully read. */
  abort(): void;
}

/** The paths of requests, under `/v1`. */
export const ORDERS = "/store/orders";
export const QUOTA = "/quota";

/**
 * Sends a request once. The caller must call `abort` on the returned response.
 *
 * @throws an Error if the status is not `expectedStatus`; errors of `onResponse` unchanged.
 */
export async function send(
  call: Call,
  method: ResponseInfo["method"],
  path: string,
  expectedStatus: number,
): Promise<Answer> {
  const { settings, gate, headers: sentHeaders } = call;
  // A look at the quota does not count.
  const ticket = path === QUOTA ? null : await gate.enter(call.isPaced, call.signal);
  const request = new AbortController();
  const unfollow = follow(call.signal, request);
  const abort = (): void => {
    unfollow();
    request.abort();
  };
  const url = `${settings.baseUrl}/v1${path}`;
  // Following a redirect would send the API key to another address.
  const init = { method, headers: sentHeaders, redirect: "manual" } as const;
  const startMs = performance.now();
  try {
    let received: Response | undefined;
    try {
      received = await receive(call, request, () =>
        settings.fetch(url, { ...init, signal: request.signal }),
      );
    } finally {
      gate.leave(ticket, received, performance.now() - startMs);
    }
    const { status, headers, body } = received;
    settings.onResponse({ method, url, status, headers, elapsedMs: performance.now() - startMs });
    const requestId = headers.get("X-Request-Id");
    const details = { status, requestId, retryAfterSeconds: readRetryAfterSeconds(headers) };
    if (status !== expectedStatus) {
      const text = await receive(call, request, () => received.text(), details);
      throw answerError(details, text, redirectOrigin(headers, url));
    }
    const reader = body?.getReader();
    const read = async () =>
      reader && (await receive(call, request, () => reader.read(), details)).value;
    return { ...details, headers, read, abort };
  } catch (error) {
    abort();
    throw error;
  }
}

/**
 * Waits for the next part of a response: `details` is `undefined` before the headers.
 *
 * @throws {TimeoutError | NetworkError} if nothing arrives; the signal's reason after an abort.
 */
async function receive<T>(
  call: Call,
  request: AbortController,
  work: () => Promise<T>,
  details?: AnswerDetails,
): Promise<T> {
  const { timeoutMs, baseUrl } = call.settings;
  const timeout = setTimeout(() => {
    request.abort(new TimeoutError(`Nothing arrived within ${timeoutMs} ms.`, details));
  }, timeoutMs);
  try {
    return await orAbort(request.signal, work);
  } catch (error) {
    if (error instanceof StoreOrdersError || call.signal?.aborted) throw error;
    const { host, origin } = new URL(baseUrl);
    const [what, advice] = details ? ["complete response", ""] : ["response", corsAdvice(origin)];
    const message = `No ${what} from ${host}: ${reasonOf(error)}.${advice}`;
    throw new NetworkError(message, details, { cause: error });
  } finally {
    clearTimeout(timeout);
  }
}

/** Makes an error from a response with an unexpected status (docs/api.md, Errors). */
function answerError(
  details: AnswerDetails,
  text: string,
  origin: string | null,
): StoreOrdersError {
  if (details.status === 304)
    return new NotModifiedError("The list has not changed: keep the one you have.", details);
  try {
    const { code, message, status } = JSON.parse(text) as Readonly<Record<string, unknown>>;
    const isWellFormed = typeof code === "string" && typeof message === "string";
    if (isWellFormed && status === details.status) return new ApiError(code, message, details);
  } catch {
    // A body that is not JSON, or that is `null`, is not from the service either.
  }
  const advice =
    origin === null
      ? "Is baseUrl the address of the service?"
      : `It redirects to ${origin}: if that is the service, set baseUrl to it, because the client sends the key to no other address.`;
  const message = `The answer is not from the service: status ${details.status}. ${advice}`;
  return new UnexpectedAnswerError(message, details);
}

/** Returns the origin that a redirect leads to; `null` if the response is none. */
function redirectOrigin(headers: Headers, url: string): string | null {
  const target = headers.get("Location");
  return target !== null && URL.canParse(target, url) ? new URL(target, url).origin : null;
}

/** Returns the reason of an error of `fetch`. In Node, only the error's `cause` has the reason. */
function reasonOf(error: unknown): string {
  const { cause = error } = error as { readonly cause?: unknown };
  // If every address of a host refuses the connection, the cause has a code and no message.
  const { message, code } = cause as { readonly message?: string; readonly code?: string };
  return message || (code ?? String(error));
}

/** Returns advice on CORS if a browser script calls another origin; otherwise an empty text. */
function corsAdvice(serviceOrigin: string): string {
  const { location } = globalThis as { readonly location?: { readonly origin: string } };
  if (location === undefined || location.origin === serviceOrigin) return "";
  return ` If the service runs, its CORS_ORIGINS must list ${location.origin}.`;
}
