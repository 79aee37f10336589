import { BrokenPromise, NoAnswerError } from "./broken-promise.ts";
import type { Clock } from "./clock.ts";
import { INTERNALS, differencesFromDocument } from "./documented-answer.ts";
import { type AnnouncedQuota, contradictionIn, readQuota } from "./quota.ts";

const TIMEOUT_MS = 20_000;
/** The largest number of orders of a list that are validated against the OpenAPI schema. */
const ORDERS_COMPARED = 1_000;

/** A request to the service. */
export interface Call {
  readonly method?: string;
  /** The secret that is sent as the bearer token. */
  readonly key?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** False sends no `X-Request-Id`, so the service chooses the id of the request. */
  readonly sendsId?: boolean;
}

/** A response that agrees with the OpenAPI document. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: string;
  /** The `code` in the body of an error response; `null` if there is none. */
  readonly code: string | null;
  readonly requestId: string;
  /** The rate limits in the headers; `null` for a path outside `/v1`. */
  readonly quota: AnnouncedQuota | null;
  /** Unix time in milliseconds. */
  readonly receivedMs: number;
}

/** Sends a request, as `fetch` does. */
export type Send = (url: string, init: RequestInit) => Promise<Response>;

interface CallerOptions {
  /** The address of the service without `/v1`. */
  readonly url: string;
  /** Headers of every request. */
  readonly headers: Readonly<Record<string, string>>;
  readonly send: Send;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/**
 * Sends requests and checks every response:
 *
 * - Status, headers and body must match the OpenAPI document.
 * - The rate-limit headers must not contradict each other.
 * - `X-Request-Id` must be the id that was sent.
 */
export class Caller {
  readonly #options: CallerOptions;

  constructor(options: CallerOptions) {
    this.#options = options;
  }

  /**
   * Sends a request and checks the response.
   *
   * @param path begins with `/`.
   * @throws {NoAnswerError} if the service sends no complete response.
   * @throws {BrokenPromise} if the response fails a check that `Caller` makes.
   */
  async call(
    path: string,
    { method = "GET", key, headers, sendsId = true }: Call = {},
  ): Promise<Answer> {
    const sentId = `verify-${crypto.randomUUID()}`;
    const request = new Headers({ "Accept-Encoding": "identity", ...this.#options.headers });
    for (const [name, value] of Object.entries(headers ?? {})) request.set(name, value);
    if (sendsId) request.set("X-Request-Id", sentId);
    if (key !== undefined) request.set("Authorization", `Bearer ${key}`);
    const { response, body } = await this.#receive(path, method, request, sentId);
    const { status } = response;
    const requestId = response.headers.get("X-Request-Id") ?? sentId;
    const broken = (fault: string) =>
      new BrokenPromise(`${method} ${path} is answered ${status}: ${fault}`, requestId);
    const receivedMs = this.#options.clock.now();
    const quota = readQuota(response.headers);
    const answer = { status, headers: response.headers, body, requestId, quota, receivedMs };
    if (sendsId && requestId !== sentId) throw broken("X-Request-Id does not repeat the caller's");
    const compared = { ...answer, method, path, body: comparableBody(answer) };
    const [difference] = differencesFromDocument(compared, { isBehindEdge: true });
    if (difference !== undefined) throw broken(difference);
    const contradiction = quota && contradictionIn(quota, receivedMs);
    if (contradiction !== null) throw broken(contradiction);
    const { code = null, message = "" } = status < 400 || method === "HEAD" ? {} : errorOf(body);
    if (INTERNALS.test(message)) throw broken(`the message shows internals: ${message}`);
    return { ...answer, code };
  }

  async #receive(
    path: string,
    method: string,
    headers: Headers,
    requestId: string,
  ): Promise<{ response: Response; body: string }> {
    const { url, send, signal } = this.#options;
    try {
      const response = await send(url + path, {
        method,
        headers,
        redirect: "manual",
        signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
      });
      return { response, body: await response.text() };
    } catch (error) {
      signal.throwIfAborted();
      const { message, cause } = error as Error;
      const reason = cause instanceof Error ? cause.message : message;
      throw new NoAnswerError(`${method} ${path} has no complete answer: ${reason}`, requestId);
    }
  }
}

/** Shortens a long list, because validating a million orders against a schema takes minutes. */
function comparableBody({ status, body }: { status: number; body: string }): string {
  if (status !== 200) return body;
  try {
    const value: unknown = JSON.parse(body);
    return Array.isArray(value) ? JSON.stringify(value.slice(0, ORDERS_COMPARED)) : body;
  } catch {
    return body;
  }
}

function errorOf(body: string): { readonly code?: string; readonly message?: string } {
  try {
    return Object(JSON.parse(body)) as { code?: string; message?: string };
  } catch {
    return {};
  }
}
