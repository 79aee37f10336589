/** The largest part of a body that the page reads: a list can have a million orders. */
const MAX_BODY_CHARACTERS = 200_000;

/** An answer of the service, as the page shows it. */
export interface Answer {
  readonly request: string;
  readonly status: number;
  readonly statusText: string;
  readonly headers: Headers;
  /** The text as sent, so integers above 2^53 are exact. */
  readonly body: string;
  /** Whether `body` is only the beginning. */
  readonly isCut: boolean;
  /** Unix time in milliseconds at which the headers arrived. */
  readonly receivedMs: number;
}

/** A request to the API. */
export interface ApiRequest {
  readonly method: "GET" | "DELETE";
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * Sends a request with an API key.
 *
 * @param key an API key, or an empty text to send none.
 * @throws {TypeError} if no answer comes.
 */
export async function send(
  key: string,
  { method, path, headers }: ApiRequest,
  signal?: AbortSignal,
): Promise<Answer> {
  const credentials = key === "" ? {} : { Authorization: `Bearer ${key}` };
  const response = await fetch(path, {
    method,
    headers: { ...headers, ...credentials },
    cache: "no-store",
    credentials: "omit",
    signal: signal ?? null,
  });
  const receivedMs = Date.now();
  const { body, isCut } = await readBody(response);
  const { status, statusText } = response;
  const request = `${method} ${path}`;
  return { request, status, statusText, headers: response.headers, body, isCut, receivedMs };
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
