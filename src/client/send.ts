import { follow, orAbort } from "./abort.ts";
import {
  type AnswerDetails,
  API_ERROR_CODES,
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

/** Aborts a request when the caller's signal aborts, or when no data arrives within a timeout. */
class Deadline {
  readonly #controller = new AbortController();
  readonly signal = this.#controller.signal;
  readonly #unfollow: () => void;
  readonly #timeoutMs: number;

  constructor(caller: AbortSignal | undefined, timeoutMs: number) {
    this.#unfollow = follow(caller, this.#controller);
    this.#timeoutMs = timeoutMs;
  }

  /** Returns the result of `work`; throws if the timeout or an abort comes first. */
  async within<T>(work: () => Promise<T>, details?: AnswerDetails): Promise<T> {
    const timeout = setTimeout(() => {
      const message = `Nothing arrived within ${this.#timeoutMs} ms.`;
      this.#controller.abort(new TimeoutError(message, details));
    }, this.#timeoutMs);
    return orAbort(this.signal, work).finally(() => clearTimeout(timeout));
  }

  abort(): void {
    this.#unfollow();
    this.#controller.abort();
  }
}

/** The HTTP response to one request. Its body is read only by the methods `read` and `error`. */
export class Answer implements AnswerDetails {
  readonly status: number;
  readonly requestId: string | null;
  readonly retryAfterSeconds: number | null;
  readonly contentType: string;
  readonly etag: string | null;
  readonly #response: Response;
  readonly #deadline: Deadline;
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;

  constructor(response: Response, deadline: Deadline) {
    const { headers } = response;
    this.status = response.status;
    this.requestId = headers.get("X-Request-Id");
    this.retryAfterSeconds = readRetryAfterSeconds(headers);
    this.contentType = headers.get("Content-Type") ?? "";
    this.etag = headers.get("ETag");
    this.#response = response;
    this.#deadline = deadline;
  }

  /** Reads the next part of the body; returns `undefined` at the end of the body. */
  async read(): Promise<Uint8Array | undefined> {
    const reader = (this.#reader ??= this.#response.body?.getReader());
    if (reader === undefined) return undefined;
    return (await this.#deadline.within(() => reader.read())).value;
  }

  /** Makes an error from a response with an unexpected status (docs/api.md, Errors). */
  async error(): Promise<ApiError | NotModifiedError | UnexpectedAnswerError> {
    if (this.status === 304)
      return new NotModifiedError("The list has not changed: keep the one you have.", this);
    const text = await this.#deadline.within(() => this.#response.text(), this);
    const { code, message } = parseErrorBody(text);
    const known = API_ERROR_CODES.find((candidate) => candidate === code);
    if (known !== undefined) return new ApiError(known, String(message), this);
    return new UnexpectedAnswerError(
      `The answer is not from the service: status ${this.status}. Is baseUrl the address of the service?`,
      this,
    );
  }

  /** Stops listening to the caller's signal. Cancels the request unless the body was fully read. */
  abort(): void {
    this.#deadline.abort();
  }
}

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
  const ticket = await gate.enter(call.isPaced, call.signal);
  const deadline = new Deadline(call.signal, settings.timeoutMs);
  const { signal } = deadline;
  const url = `${settings.baseUrl}/v1/store/orders${path}`;
  // Following a redirect would send the API key to another address.
  const init = { method, headers: sentHeaders, redirect: "manual", signal } as const;
  const startMs = performance.now();
  let response: Response | undefined;
  try {
    response = await overNetwork(call, () => deadline.within(() => settings.fetch(url, init)));
  } catch (error) {
    deadline.abort();
    throw error;
  } finally {
    gate.leave(ticket, response, performance.now() - startMs);
  }
  try {
    const { status, headers } = response;
    settings.onResponse({ method, url, status, headers, elapsedMs: performance.now() - startMs });
    const answer = new Answer(response, deadline);
    if (status === expectedStatus) return answer;
    throw await overNetwork(call, () => answer.error(), answer);
  } catch (error) {
    deadline.abort();
    throw error;
  }
}

/** Runs `work`. Turns an error of `fetch`, or of reading `answer`'s body, into a NetworkError. */
async function overNetwork<T>(
  { signal, settings }: Call,
  work: () => Promise<T>,
  answer?: Answer,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof StoreOrdersError || signal?.aborted) throw error;
    const { host, origin } = new URL(settings.baseUrl);
    const message =
      answer === undefined
        ? `No response from ${host}: ${reasonOf(error)}.${corsAdvice(origin)}`
        : `No complete response from ${host}: ${reasonOf(error)}.`;
    throw new NetworkError(message, answer, { cause: error });
  }
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

function parseErrorBody(text: string): { readonly code?: unknown; readonly message?: unknown } {
  try {
    return Object(JSON.parse(text)) as object;
  } catch {
    return {};
  }
}
