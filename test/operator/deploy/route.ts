/** An error answer of the API: HTTP status, Cloudflare's own code and message. */
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
  /** The path below the account. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly contentType: string;
  readonly body: Buffer;
}

export interface Route {
  readonly method: string;
  readonly path: RegExp;
  /** Returns the record of the call; `undefined` if it changes nothing. */
  readonly change?: (call: ApiCall, name: string) => string | undefined;
  /** Returns the `result` of the answer, or its promise. `name` is the path's first group. */
  readonly answer: (call: ApiCall, name: string) => unknown;
}
