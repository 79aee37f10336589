/** An error response of Cloudflare's API. */
export class ApiError extends Error {
  readonly status: number;
  readonly errors: readonly object[];

  constructor(status: number, code: number, message: string) {
    super(`${message} [code: ${code}]`);
    this.status = status;
    this.errors = [{ code, message }];
  }
}

/** `path` is without `/client/v4` and `/accounts/ID`; `body` of a form is the part with the metadata. */
export interface ApiCall {
  readonly method: string;
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly body: string;
  /** Records a change in `FakeCloudflare.changes`. */
  readonly change: (text: string) => unknown;
}

/** The `result` of each API call, or a function of the call and the parts of its path at each `:`. */
export type Routes = Record<string, object | ((call: ApiCall, ...at: string[]) => unknown)>;

export const bodyOf = <T>({ body }: ApiCall) => JSON.parse(body) as T;
