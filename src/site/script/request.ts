export interface ApiRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** A response whose body has arrived. */
export interface Received {
  readonly request: ApiRequest;
  readonly status: number;
  readonly statusText: string;
  readonly headers: Headers;
  /** The first characters of the body, in which integers above 2^53 are exact. */
  readonly head: string;
  /** The whole body; `null` if `head` is the whole body. */
  readonly longBody: Blob | null;
  /** Unix time in milliseconds at which the headers arrived. */
  readonly receivedMs: number;
  /** The time from sending the request to the end of the body, in milliseconds. */
  readonly tookMs: number;
}

/** What the reader learns of one request: a response, no complete response, or why none was sent. */
export type Outcome =
  | { readonly kind: "response"; readonly received: Received }
  | { readonly kind: "failure"; readonly request: ApiRequest; readonly reason: string }
  | { readonly kind: "stopped"; readonly request: ApiRequest }
  | { readonly kind: "unsent"; readonly problem: string };

/** The page shows only this much of a body. Longer bodies can be downloaded. */
export const SHOWN_CHARACTERS = 20_000;

/** Reading gives way to the reader's input after this time. */
const LONGEST_TASK_MS = 50;

/**
 * Sends a request, without an `Authorization` header if the API key is empty. Never rejects.
 *
 * @param onText receives the body in parts.
 */
export async function send(
  key: string,
  { method, path, headers: own }: Omit<ApiRequest, "headers"> & Partial<ApiRequest>,
  signal: AbortSignal,
  onText: (text: string) => void = () => {},
): Promise<Outcome> {
  const headers = { ...(key !== "" && { Authorization: `Bearer ${key}` }), ...own };
  const request = { method, path, headers };
  const sentMs = performance.now();
  try {
    const options = { method, headers, signal, cache: "no-store", credentials: "omit" } as const;
    const response = await fetch(path, options);
    const receivedMs = Date.now();
    const body = await readBody(response, onText);
    const { status, statusText, headers: answered } = response;
    const tookMs = performance.now() - sentMs;
    const received = { request, status, statusText, headers: answered, receivedMs, tookMs };
    return { kind: "response", received: { ...received, ...body } };
  } catch (error) {
    if (signal.aborted) return { kind: "stopped", request };
    const reason = error instanceof Error ? error.message : String(error);
    return { kind: "failure", request, reason };
  }
}

async function readBody(
  { body }: Response,
  onText: (text: string) => void,
): Promise<Pick<Received, "head" | "longBody">> {
  const decoder = new TextDecoder();
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let head = "";
  let isLong = false;
  let begunMs = performance.now();
  const take = (bytes?: Uint8Array): void => {
    const text = decoder.decode(bytes, { stream: bytes !== undefined });
    isLong ||= head.length + text.length > SHOWN_CHARACTERS;
    if (head.length < SHOWN_CHARACTERS) head = (head + text).slice(0, SHOWN_CHARACTERS);
    onText(text);
  };
  const reader = body?.getReader();
  for (let read = await reader?.read(); read?.value; read = await reader?.read()) {
    parts.push(read.value);
    for (let start = 0; start < read.value.length; start += 2 ** 17) {
      take(read.value.subarray(start, start + 2 ** 17));
      if (performance.now() - begunMs < LONGEST_TASK_MS) continue;
      await new Promise((resolve) => setTimeout(resolve));
      begunMs = performance.now();
    }
  }
  take();
  return { head, longBody: isLong ? new Blob(parts, { type: "application/json" }) : null };
}

/** Reads the body of an error response; `null` if the body is no short JSON object. */
export function errorIn({ head }: Received): { code?: string; message?: string } | null {
  if (!head.startsWith("{")) return null;
  try {
    return JSON.parse(head);
  } catch {
    return null;
  }
}
