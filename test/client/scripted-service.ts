import { ReadableStream } from "node:stream/web";
import { vi } from "vitest";
import { createClient, type StoreOrdersClient } from "../../src/client/client.ts";
import type { ClientOptions } from "../../src/client/options.ts";

export interface SentRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: Headers;
  readonly signal: AbortSignal | null;
  readonly atMs: number;
}

export type Answer = (request: SentRequest) => Response | Promise<Response>;

/** Provides a `fetch` that returns the given answers in turn, and then repeats the last answer. */
export class ScriptedService {
  readonly requests: SentRequest[] = [];
  readonly #answers: readonly Answer[];

  constructor(...answers: readonly Answer[]) {
    this.#answers = answers;
  }

  readonly fetch = async (url: unknown, init: RequestInit = {}): Promise<Response> => {
    const request = {
      method: init.method ?? "GET",
      url: String(url),
      headers: new Headers(init.headers as Record<string, string>),
      signal: init.signal ?? null,
      atMs: performance.now(),
    };
    this.requests.push(request);
    const answer = this.#answers[this.requests.length - 1] ?? this.#answers.at(-1);
    if (answer === undefined) throw new Error("no answer is scripted");
    return answer(request);
  };

  get gapsMs(): number[] {
    return this.requests.slice(1).map(({ atMs }, index) => atMs - this.requests[index]!.atMs);
  }
}

export const OPTIONS = { apiKey: "sord_test", baseUrl: "https://orders.example" };

/** Returns an answer: a list whose body arrives in these parts. An `Error` ends the body. */
export function list(...parts: readonly (string | Error)[]): Answer {
  async function* body() {
    for (const part of parts) {
      if (part instanceof Error) throw part;
      yield new TextEncoder().encode(part);
    }
  }
  const headers = { "Content-Type": "application/json" };
  return () => new Response(ReadableStream.from(body()), { headers });
}

export function cancelled(): Response {
  return new Response(null, { status: 204 });
}

/** Returns the rate-limit headers of a key with room in its minute. */
export function quota(leftInDay: number) {
  const policy = '"minute";q=60;w=60, "day";q=1000;w=86400';
  const left = `"minute";r=59;t=60, "day";r=${leftInDay};t=86400`;
  return { "RateLimit-Policy": policy, RateLimit: left };
}

export function roomy(): Response {
  return new Response(null, { status: 204, headers: quota(999) });
}

export function failed(
  status: number,
  code: string,
  headers: Record<string, string> = {},
): () => Response {
  return () =>
    Response.json(
      { code, message: `about ${code}`, status },
      { status, headers: { "X-Request-Id": "request-1", ...headers } },
    );
}

export function unreachable(): never {
  throw new TypeError("fetch failed");
}

/** Never returns a response, even if the request is aborted. */
export function ignoresSignal(): Promise<Response> {
  return new Promise(() => undefined);
}

export function clientOf(
  { fetch }: { readonly fetch: typeof globalThis.fetch },
  options: Partial<ClientOptions> = {},
): StoreOrdersClient {
  return createClient({ ...OPTIONS, fetch, ...options });
}

/** Advances the fake clock until a call of the client has ended, and returns its outcome. */
export async function settled<T>(call: Promise<T>): Promise<PromiseSettledResult<T>> {
  const all = Promise.allSettled([call]);
  await vi.runAllTimersAsync();
  return (await all)[0];
}
