import { INT64_MIN } from "../../worker/orders/int64.ts";
import { INTERNALS, differencesFromDocument } from "../../openapi/documented-answer.ts";
import { type AnnouncedQuota, contradictionIn, readQuota } from "../../openapi/quota.ts";
import { BrokenPromise, type Clock, NoAnswerError, OtherVersionError } from "./service-promise.ts";

const TIMEOUT_MS = 20_000;
/** The number of orders that are read of a long list, unless a check looks for a later order. */
const ORDERS_READ = 1_000;

/** A request to the service. */
export interface Call {
  readonly method?: string;
  /** The secret that is sent as the bearer token. */
  readonly key?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** False sends no `X-Request-Id`, so the service chooses the id of the request. */
  readonly sendsId?: boolean;
  /** True if Cloudflare responds with a file, without running the Worker. */
  readonly isStatic?: boolean;
  /** Reads a list of orders at least until an order with a larger id. */
  readonly readTo?: bigint;
}

/** A response that agrees with the OpenAPI document. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  /** The body; of a list of orders, an array with as many of its first orders as were read. */
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
  /** The id of the version from which every response must be, except those of static files. */
  readonly version: string | undefined;
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
   * @throws {OtherVersionError} if another version than the wanted one responds.
   */
  async call(
    path: string,
    { method = "GET", key, headers, sendsId = true, isStatic = false, readTo }: Call = {},
  ): Promise<Answer> {
    const { version } = this.#options;
    const sentId = `verify-${crypto.randomUUID()}`;
    const repeatsId = sendsId && !isStatic;
    const request = new Headers({ "Accept-Encoding": "identity", ...this.#options.headers });
    for (const [name, value] of Object.entries(headers ?? {})) request.set(name, value);
    if (repeatsId) request.set("X-Request-Id", sentId);
    if (version !== undefined) request.set("X-Version", version);
    if (key !== undefined) request.set("Authorization", `Bearer ${key}`);
    const init = { method, headers: request };
    const { response, body } = await this.#receive(path, init, sentId, readTo);
    if (version !== undefined && !isStatic && response.headers.get("X-Version") !== version) {
      throw new OtherVersionError(`${method} ${path} is not answered by the version ${version}`);
    }
    const { status } = response;
    const requestId = response.headers.get("X-Request-Id") ?? sentId;
    const broken = (fault: string) =>
      new BrokenPromise(`${method} ${path} is answered ${status}: ${fault}`, requestId);
    const receivedMs = this.#options.clock.now();
    const quota = readQuota(response.headers);
    const answer = { status, headers: response.headers, body, requestId, quota, receivedMs };
    if (repeatsId && requestId !== sentId)
      throw broken("X-Request-Id does not repeat the caller's");
    const compared = { ...answer, method, path };
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
    init: RequestInit & { readonly method: string },
    requestId: string,
    readTo: bigint | undefined,
  ): Promise<{ response: Response; body: string }> {
    const { url, send, signal } = this.#options;
    try {
      const response = await send(url + path, {
        ...init,
        redirect: "manual",
        signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
      });
      const isList = response.status === 200 && path.startsWith("/v1/");
      const body = isList ? await readOrders(response, readTo) : await response.text();
      return { response, body };
    } catch (error) {
      signal.throwIfAborted();
      const { message, cause } = error as Error;
      const reason = cause instanceof Error ? cause.message : message;
      throw new NoAnswerError(
        `${init.method} ${path} has no complete answer: ${reason}`,
        requestId,
      );
    }
  }
}

/**
 * Reads a list of orders of any size: at least its first 1,000 orders, and on until an order with an
 * id larger than `readTo`. Then ends the response, and closes the array.
 */
async function readOrders({ body }: Response, readTo = INT64_MIN): Promise<string> {
  const ids = /\{"id":(?<id>-?\d+)[,}]/g;
  let text = "";
  let count = 0;
  let last = INT64_MIN;
  for await (const part of body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += part;
    let readTill = ids.lastIndex;
    for (let found = ids.exec(text); found !== null; found = ids.exec(text)) {
      count += 1;
      last = BigInt(found.groups?.["id"] ?? last);
      readTill = ids.lastIndex;
    }
    ids.lastIndex = readTill;
    if (count > ORDERS_READ && last > readTo) {
      return `${text.slice(0, text.lastIndexOf("},{") + 1)}]`;
    }
  }
  return text;
}

function errorOf(body: string): { readonly code?: string; readonly message?: string } {
  try {
    return Object(JSON.parse(body)) as { code?: string; message?: string };
  } catch {
    return {};
  }
}
