/** The largest part of a body that the page reads: a list can have a million orders. */
const MAX_BODY_CHARACTERS = 200_000;

/** An answer of the service, as the page shows it. */
export interface Answer {
  readonly request: ApiRequest;
  readonly status: number;
  readonly statusText: string;
  readonly headers: Headers;
  /** The text as sent, so integers above 2^53 are exact. */
  readonly body: string;
  /** Whether `body` is only the beginning. */
  readonly isCut: boolean;
  /** Unix time in milliseconds at which the headers arrived. */
  readonly receivedMs: number;
  /** From sending the request to the end of the body, in milliseconds. */
  readonly tookMs: number;
}

/** A request to the API. */
export interface ApiRequest {
  readonly method: "GET" | "DELETE";
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * Makes a request with an API key.
 *
 * @param key an API key, or an empty text to send none.
 */
export function withKey(
  key: string,
  { method, path, headers = {} }: Omit<ApiRequest, "headers"> & Partial<ApiRequest>,
): ApiRequest {
  const credentials = key === "" ? {} : { Authorization: `Bearer ${key}` };
  return { method, path, headers: { ...credentials, ...headers } };
}

/**
 * Sends a request.
 *
 * @throws {TypeError} if no answer comes.
 */
export async function send(request: ApiRequest, signal?: AbortSignal): Promise<Answer> {
  const { method, path, headers } = request;
  const sentMs = performance.now();
  const response = await fetch(path, {
    method,
    headers,
    cache: "no-store",
    credentials: "omit",
    signal: signal ?? null,
  });
  const receivedMs = Date.now();
  const { body, isCut } = await readBody(response);
  const { status, statusText } = response;
  const tookMs = performance.now() - sentMs;
  return {
    request,
    status,
    statusText,
    headers: response.headers,
    body,
    isCut,
    receivedMs,
    tookMs,
  };
}

/** Writes a request as a line for a shell. */
export function curlLine({ method, path, headers }: ApiRequest): string {
  const options = Object.entries(headers).map(
    ([name, value]) => `-H ${quoted(`${name}: ${value}`)}`,
  );
  const words = ["curl -i", ...(method === "GET" ? [] : [`-X ${method}`]), ...options];
  return [...words, quoted(`${location.origin}${path}`)].join(" ");
}

/** Returns the `code` of an error answer; `null` if the answer is no error of the service. */
export function codeOf({ body }: Answer): string | null {
  return errorIn(body)?.code ?? null;
}

/** Returns the error in a body; `null` if the body is no error of the service. */
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
  if (response.body === null) return { body, isCut: false };
  for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
    body += text;
    // Leaving the loop cancels the rest of the answer.
    if (body.length > MAX_BODY_CHARACTERS) {
      return { body: body.slice(0, MAX_BODY_CHARACTERS), isCut: true };
    }
  }
  return { body, isCut: false };
}
