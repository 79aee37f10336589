export interface ApiRequest {
  readonly method: "GET" | "DELETE";
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** A complete response of the service. */
export interface Answer {
  readonly request: ApiRequest;
  readonly status: number;
  readonly statusText: string;
  readonly headers: Headers;
  /** The body as text, in which integers above 2^53 are exact. */
  readonly body: string;
  /** Unix time in milliseconds at which the headers arrived. */
  readonly receivedMs: number;
  /** The time from sending the request to the end of the body, in milliseconds. */
  readonly tookMs: number;
}

/** What the reader learns of one operation: a response, no complete response, or why none was sent. */
export type Outcome =
  | { readonly kind: "answer"; readonly answer: Answer }
  | { readonly kind: "failure"; readonly request: ApiRequest; readonly reason: string }
  | { readonly kind: "stopped"; readonly request: ApiRequest }
  | { readonly kind: "unsent"; readonly problem: string };

/** Sends a request, without an `Authorization` header if the API key is empty. Never rejects. */
export async function send(
  key: string,
  { method, path, headers: own }: Omit<ApiRequest, "headers"> & Partial<ApiRequest>,
  signal: AbortSignal,
): Promise<Outcome> {
  const headers = { ...(key !== "" && { Authorization: `Bearer ${key}` }), ...own };
  const request = { method, path, headers };
  const sentMs = performance.now();
  try {
    const options = { method, headers, signal, cache: "no-store", credentials: "omit" } as const;
    const response = await fetch(path, options);
    const receivedMs = Date.now();
    const body = await response.text();
    const { status, statusText, headers: received } = response;
    const tookMs = performance.now() - sentMs;
    return {
      kind: "answer",
      answer: { request, status, statusText, headers: received, body, receivedMs, tookMs },
    };
  } catch (error) {
    if (signal.aborted) return { kind: "stopped", request };
    const reason = error instanceof Error ? error.message : String(error);
    return { kind: "failure", request, reason };
  }
}

/** Returns the `curl` command that sends a request. */
export function curlLine({ method, path, headers }: ApiRequest, origin: string): string {
  const options = Object.entries(headers).map(
    ([name, value]) => `-H ${quoted(`${name}: ${value}`)}`,
  );
  const words = ["curl -i", ...(method === "GET" ? [] : [`-X ${method}`]), ...options];
  return [...words, quoted(`${origin}${path}`)].join(" ");
}

/** Returns the `code` of an error response; `null` if the response is no error of the service. */
export function codeOf({ body }: Answer): string | null {
  return errorIn(body)?.code ?? null;
}

/** Parses the body of an error response; `null` if the body is no short JSON object. */
export function errorIn(body: string): { code?: string; message?: string } | null {
  if (!body.startsWith("{")) return null;
  try {
    return JSON.parse(body);
  } catch {
    return null;
  }
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
