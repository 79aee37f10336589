/** The console reads only this much of a body, because a list can have a million orders. */
const MAX_BODY_CHARACTERS = 200_000;

export interface Answer {
  readonly request: ApiRequest;
  readonly status: number;
  readonly statusText: string;
  readonly headers: Headers;
  /** The body as text, in which integers above 2^53 are exact. */
  readonly body: string;
  /** True if `body` is only the beginning of the response's body. */
  readonly isCut: boolean;
  /** Unix time in milliseconds at which the headers arrived. */
  readonly receivedMs: number;
  /** The time from sending the request to the end of the body, in milliseconds. */
  readonly tookMs: number;
}

export interface ApiRequest {
  readonly method: "GET" | "DELETE";
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** Sends a request, without an `Authorization` header if the API key is empty. */
export async function send(
  key: string,
  { method, path, headers: own }: Omit<ApiRequest, "headers"> & Partial<ApiRequest>,
  signal?: AbortSignal,
): Promise<Answer> {
  const headers = { ...(key !== "" && { Authorization: `Bearer ${key}` }), ...own };
  const sentMs = performance.now();
  const response = await fetch(path, {
    method,
    headers,
    cache: "no-store",
    credentials: "omit",
    signal: signal ?? null,
  });
  const receivedMs = Date.now();
  const read = await readBody(response);
  return {
    request: { method, path, headers },
    status: response.status,
    statusText: response.statusText,
    headers: response.headers,
    ...read,
    receivedMs,
    tookMs: performance.now() - sentMs,
  };
}

/** Returns the `curl` command that sends a request. */
export function curlLine({ method, path, headers }: ApiRequest): string {
  const options = Object.entries(headers).map(
    ([name, value]) => `-H ${quoted(`${name}: ${value}`)}`,
  );
  const words = ["curl -i", ...(method === "GET" ? [] : [`-X ${method}`]), ...options];
  return [...words, quoted(`${location.origin}${path}`)].join(" ");
}

/** Returns the `code` of an error response; `null` if the response is no error of the service. */
export function codeOf({ body }: Answer): string | null {
  return errorIn(body)?.code ?? null;
}

/** Parses the body of an error response; `null` if the body is no JSON object or array. */
export function errorIn(body: string): { code?: string; message?: string } | null {
  try {
    const value: unknown = JSON.parse(body);
    return typeof value === "object" ? value : null;
  } catch {
    return null;
  }
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

async function readBody(response: Response): Promise<{ body: string; isCut: boolean }> {
  let body = "";
  for await (const text of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    body += text;
    // Leaving the loop cancels the rest of the response.
    if (body.length > MAX_BODY_CHARACTERS) break;
  }
  const isCut = body.length > MAX_BODY_CHARACTERS;
  return { body: body.slice(0, MAX_BODY_CHARACTERS), isCut };
}
