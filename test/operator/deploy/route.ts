/** An error response of Cloudflare's API. */
export class ApiError extends Error {
  declare readonly status: number;
  declare readonly code: number;

  constructor(status: number, code: number, message: string) {
    super(message);
    Object.assign(this, { status, code });
  }
}

export interface ApiCall {
  readonly method: string;
  /** The path of the API call, without `/client/v4` and `/accounts/ID`. */
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  /** The body; of a form, the part with the metadata. */
  readonly body: Buffer;
  /** Records a change in `FakeCloudflare.changes`. */
  readonly change: (text: string) => unknown;
}

/** The `result` of each API call, or a function of the call and the parts of its path at each `:`. */
export type Routes = Readonly<
  Record<string, object | ((call: ApiCall, ...at: string[]) => unknown)>
>;

export const bodyOf = <T>({ body }: ApiCall) => JSON.parse(body.toString()) as T;
