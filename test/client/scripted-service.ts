import { ReadableStream } from "node:stream/web";
import { vi } from "vitest";
import { createClient } from "../../src/client/client.ts";
import type { ClientOptions } from "../../src/client/options.ts";

const toRequest = (url: unknown, init: RequestInit = {}) => ({
  method: init.method,
  url: String(url),
  headers: new Headers(init.headers as Record<string, string>),
  signal: init.signal,
  atMs: performance.now(),
});
type SentRequest = ReturnType<typeof toRequest>;

export type Answer = (request: SentRequest) => Response | Promise<Response>;

/** Provides a `fetch` that returns the given answers in turn, and then repeats the last answer. */
export class ScriptedService {
  readonly requests: SentRequest[] = [];
  readonly #answers: readonly Answer[];

  constructor(...answers: readonly Answer[]) {
    this.#answers = answers;
  }

  readonly fetch = async (...sent: Parameters<typeof toRequest>): Promise<Response> => {
    const count = this.requests.push(toRequest(...sent));
    const answer = this.#answers[count - 1] ?? this.#answers.at(-1)!;
    return answer(this.requests[count - 1]!);
  };

  get gapsMs(): number[] {
    return this.requests.slice(1).map(({ atMs }, index) => atMs - this.requests[index]!.atMs);
  }
}

export const OPTIONS = { apiKey: "sord_test", baseUrl: "https://orders.example" };

/** A proxy that compresses makes the tag of the service a weak one. */
export const TAG = 'W/"b635bf2f"';

/** Returns an answer: a list whose body arrives in these parts. A function is awaited, an `Error` ends it. */
export function list(...parts: readonly (string | Error | (() => Promise<void>))[]): Answer {
  async function* body() {
    for (const part of parts) {
      if (part instanceof Error) throw part;
      if (typeof part === "string") yield new TextEncoder().encode(part);
      else await part();
    }
  }
  const headers = { "Content-Type": "application/json; charset=utf-8", ETag: TAG };
  return () => new Response(ReadableStream.from(body()), { headers });
}

export const cancelled = () => new Response(null, { status: 204 });

/** Returns the rate-limit headers of a key with room in its minute. */
export function quota(leftInDay: number) {
  const left = `"minute";r=59;t=60, "day";r=${leftInDay};t=86400`;
  return { "RateLimit-Policy": '"minute";q=60;w=60, "day";q=1000;w=86400', RateLimit: left };
}

export const roomy = () => new Response(null, { status: 204, headers: quota(999) });

export function failed(status: number, code: string, more: Record<string, string> = {}) {
  const headers = { "X-Request-Id": "request-1", ...more };
  return () => Response.json({ code, message: `about ${code}`, status }, { status, headers });
}

export function unreachable(): never {
  throw new TypeError("fetch failed", { cause: new Error("refused") });
}

/** Never returns a response, even if the request is aborted. */
export const ignoresSignal = () => new Promise<Response>(() => undefined);

export const clientOf = ({ fetch }: Pick<ClientOptions, "fetch">, more?: Partial<ClientOptions>) =>
  createClient({ ...OPTIONS, fetch, ...more });

/** Advances the fake clock until a call of the client has ended, and returns its outcome. */
export async function settled<T>(call: Promise<T>): Promise<PromiseSettledResult<T>> {
  const all = Promise.allSettled([call]);
  await vi.runAllTimersAsync();
  return (await all)[0];
}
