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
  /** The path of the API call, without `/client/v4` and `/accounts/ID`. */
  readonly path: string;
  readonly query: URLSearchParams;
  /** The body; of a form, the part with the metadata. */
  readonly body: Buffer;
  /** Records a change in `FakeCloudflare.changes`. */
  readonly change: (text: string) => void;
}

/**
 * The handlers of API calls, by method and path, such as `GET /workers/scripts/:/settings`. They
 * receive the part of the path at each `:`, and return a `result`.
 */
export type Routes = Readonly<Record<string, (call: ApiCall, ...parts: string[]) => unknown>>;

export function bodyOf<T>({ body }: ApiCall): T {
  return JSON.parse(body.toString()) as T;
}
