import { Answer } from "./answer.ts";
import { Deadline } from "./deadline.ts";
import { NetworkError, StoreOrdersError } from "./errors.ts";
import type { Gate } from "./gate.ts";
import type { Settings } from "./options.ts";
import { readRetryAfterSeconds, readWindows } from "./rate-limit-headers.ts";

/** The settings that the requests of one call share. */
export interface Call {
  readonly settings: Settings;
  readonly gate: Gate;
  /** Whether its requests wait until the limits have room. */
  readonly isPaced: boolean;
  readonly signal: AbortSignal | undefined;
}

/**
 * Sends a request once.
 *
 * @returns an answer with the expected status; the caller must release or abort it.
 * @throws {StoreOrdersError}, or the reason of the caller's abort.
 */
export async function send(
  call: Call,
  method: "GET" | "DELETE",
  path: string,
  expectedStatus: number,
): Promise<Answer> {
  await call.gate.enter(call.isPaced, call.signal);
  const deadline = new Deadline(call.signal, call.settings.timeoutMs);
  try {
    const answer = await exchange(call, deadline, method, path);
    if (answer.status === expectedStatus) return answer;
    throw await answer.error();
  } catch (error) {
    deadline.release();
    if (error instanceof StoreOrdersError || call.signal?.aborted) throw error;
    throw new NetworkError(
      "The service could not be reached. In a browser, check too that CORS_ORIGINS of the service lists this page's origin.",
      undefined,
      { cause: error },
    );
  }
}

async function exchange(
  { settings, gate }: Call,
  deadline: Deadline,
  method: string,
  path: string,
): Promise<Answer> {
  let response: Response | undefined;
  try {
    response = await deadline.within(() =>
      settings.fetch(`${settings.baseUrl}/v1/store/orders${path}`, {
        method,
        headers: { Authorization: `Bearer ${settings.apiKey}`, Accept: "application/json" },
        // A redirection must not carry the key to another address.
        redirect: "manual",
        signal: deadline.signal,
      }),
    );
    return new Answer(response, deadline);
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
