/** An error response of Cloudflare's API, with HTTP status, error code and message. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: number;

  constructor(status: number, code: number, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export interface ApiCall {
  readonly method: string;
  /** The path of the API call below the account. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly contentType: string;
  readonly body: Buffer;
}

export interface Route {
  readonly method: string;
  readonly path: RegExp;
  /** True if the answer is the whole body of the response, not its field `result`. */
  readonly isRaw?: boolean;
  /**
   * Returns the text to record in `FakeCloudflare.changes`; `undefined` if the API call changes
   * nothing.
   */
  readonly change?: (call: ApiCall, name: string) => string | undefined;
  /**
   * Returns the `result` field of the API response. `name` is the first capture group of `path`.
   */
  readonly answer: (call: ApiCall, name: string) => unknown;
}
