import type { Deadline } from "./deadline.ts";
import {
  type AnswerDetails,
  API_ERROR_CODES,
  ApiError,
  NotModifiedError,
  UnexpectedAnswerError,
} from "./errors.ts";
import { readRetryAfterSeconds } from "./rate-limit-headers.ts";

/** The HTTP response to one request. Its body is read only by the methods `read` and `error`. */
export class Answer implements AnswerDetails {
  readonly status: number;
  readonly requestId: string | null;
  readonly retryAfterSeconds: number | null;
  readonly contentType: string;
  readonly etag: string | null;
  readonly #response: Response;
  readonly #deadline: Deadline;
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;

  constructor(response: Response, deadline: Deadline) {
    this.status = response.status;
    this.requestId = response.headers.get("X-Request-Id");
    this.retryAfterSeconds = readRetryAfterSeconds(response.headers);
    this.contentType = response.headers.get("Content-Type") ?? "";
    this.etag = response.headers.get("ETag");
    this.#response = response;
    this.#deadline = deadline;
  }

  /** Reads the next part of the body; returns `undefined` at the end of the body. */
  async read(): Promise<Uint8Array | undefined> {
    const reader = (this.#reader ??= this.#response.body?.getReader());
    if (reader === undefined) return undefined;
    return (await this.#deadline.within(() => reader.read())).value;
  }

  /** Makes an error from a response with an unexpected status (docs/api.md, Errors). */
  async error(): Promise<ApiError | NotModifiedError | UnexpectedAnswerError> {
    if (this.status === 304)
      return new NotModifiedError("The list has not changed: keep the one you have.", this);
    const text = await this.#deadline.within(() => this.#response.text());
    const { code, message } = parseErrorBody(text);
    const known = API_ERROR_CODES.find((candidate) => candidate === code);
    if (known !== undefined) return new ApiError(known, String(message), this);
    return new UnexpectedAnswerError(
      `The answer is not from the service: status ${this.status}. Is baseUrl the address of the service?`,
      this,
    );
  }

  /**
   * Stops listening to the caller's signal. Call this for a response without a body, or after the
   * complete body is read. To end a response earlier, call `abort`.
   */
  release(): void {
    this.#deadline.release();
  }

  /** Cancels the request and discards the unread rest of the body. */
  abort(): void {
    this.#deadline.abort();
  }
}

function parseErrorBody(text: string): { readonly code?: unknown; readonly message?: unknown } {
  try {
    const body: unknown = JSON.parse(text);
    return typeof body === "object" && body !== null ? body : {};
  } catch {
    return {};
  }
}
