import { Answer } from "./answer.ts";
import { Deadline } from "./deadline.ts";
import { NetworkError, StoreOrdersError } from "./errors.ts";
import type { Gate } from "./gate.ts";
import type { ResponseInfo, Settings } from "./options.ts";
import { readRetryAfterSeconds, readWindows } from "./rate-limit-headers.ts";

/** The settings that the requests of one call share. */
export interface Call {
  readonly settings: Settings;
  readonly gate: Gate;
  /** Whether the requests of the call wait until the rate limits admit them. */
  readonly isPaced: boolean;
  readonly signal: AbortSignal | undefined;
  readonly headers: Headers;
}

type Method = ResponseInfo["method"];

/**
 * Sends a request once.
 *
 * @returns the response, if its status is `expectedStatus`; the caller must release or abort it.
 * @throws {StoreOrdersError} if the request fails or the response has another status. Throws the
 *   reason of the caller's signal if the caller aborts, and passes on errors of `onResponse`.
 */
export async function send(
  call: Call,
  method: Method,
  path: string,
  expectedStatus: number,
): Promise<Answer> {
  await call.gate.enter(call.isPaced, call.signal);
  const deadline = new Deadline(call.signal, call.settings.timeoutMs);
  const url = `${call.settings.baseUrl}/v1/store/orders${path}`;
  const startMs = performance.now();
  try {
    const response = await overNetwork(call, () => exchange(call, deadline, method, url));
    const { status, headers } = response;
    const elapsedMs = performance.now() - startMs;
    call.settings.onResponse({ method, url, status, headers, elapsedMs });
    const answer = new Answer(response, deadline);
    if (status === expectedStatus) return answer;
    throw await overNetwork(call, () => answer.error());
  } catch (error) {
    deadline.abort();
    throw error;
  }
}

async function exchange(
  { settings, gate, headers }: Call,
  deadline: Deadline,
  method: Method,
  url: string,
): Promise<Response> {
  let response: Response | undefined;
  try {
    response = await deadline.within(() =>
      settings.fetch(url, {
        method,
        headers,
        // Following a redirect would send the API key to another address.
        redirect: "manual",
        signal: deadline.signal,
      }),
    );
    return response;
  } finally {
    gate.leave(
      response === undefined
        ? null
        : {
            windows: readWindows(response.headers),
            retryAfterSeconds: readRetryAfterSeconds(response.headers),
          },
    );
  }
}

/** Runs `work` and turns an error of `fetch` into a NetworkError. */
async function overNetwork<T>({ signal, settings }: Call, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof StoreOrdersError || signal?.aborted) throw error;
    const { host, origin } = new URL(settings.baseUrl);
    const message = `No response from ${host}: ${reasonOf(error)}.${corsAdvice(origin)}`;
    throw new NetworkError(message, undefined, { cause: error });
  }
}

/** Returns the reason of an error of `fetch`. In Node, only the error's `cause` has the reason. */
function reasonOf(error: unknown): string {
  const { cause = error } = error as { readonly cause?: unknown };
  // If every address of a host refuses the connection, the cause has a code and no message.
  const { message, code } = cause as { readonly message?: string; readonly code?: string };
  return message || (code ?? String(error));
}

/** Returns advice for a script in a browser that calls a service at another origin. */
function corsAdvice(serviceOrigin: string): string {
  const { location } = globalThis as { readonly location?: { readonly origin: string } };
  if (location === undefined || location.origin === serviceOrigin) return "";
  return ` If the service runs, its CORS_ORIGINS must list ${location.origin}.`;
}
