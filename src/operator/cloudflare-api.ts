import { z } from "zod";
import { runWrangler } from "./wrangler.ts";

const CLOUDFLARE_API = "https://api.cloudflare.com/client/v4";
/** A D1 query takes up to 30 seconds, and may first wait for other queries and for its upload. */
const TIMEOUT_MS = 90_000;

const errorsSchema = z.array(z.object({ code: z.number().nullish(), message: z.string() }));
const answerSchema = z.object({
  success: z.boolean().optional(),
  errors: errorsSchema.nullish(),
});

interface Call {
  readonly method?: "GET" | "POST" | "PUT" | "PATCH";
  /** An object is sent as JSON, a string as it is. */
  readonly body?: object | string;
}

/** Thrown if there is no login, neither wrangler's nor a token. */
export class NotLoggedInError extends Error {
  override readonly name = "NotLoggedInError";

  constructor(cause?: Error) {
    const isPlain = cause === undefined || /not logged in/i.test(cause.message);
    super(
      "not logged in to Cloudflare: run `npx wrangler login`, or set CLOUDFLARE_API_TOKEN to a valid " +
        `token${isPlain ? "" : ` (${cause.message})`}`,
      { cause },
    );
  }
}

/** Thrown if Cloudflare's API refuses a call or does not respond. */
export class CloudflareError extends Error {
  override readonly name = "CloudflareError";
  /** Cloudflare's own message, with error codes and the HTTP status. */
  readonly reason: string;
  /** The error codes in Cloudflare's response; empty if Cloudflare did not respond. */
  readonly codes: readonly number[];
  /** True if Cloudflare refused the call, so it changed nothing. */
  readonly isRefusal: boolean;

  constructor(
    call: string,
    reason: string,
    { status = 0, codes = [], cause }: { status?: number; codes?: number[]; cause?: unknown } = {},
  ) {
    super(`Cloudflare, ${call}: ${reason}`, { cause });
    this.reason = reason;
    this.codes = codes;
    this.isRefusal = status >= 400 && status < 500 && status !== 408 && status !== 429;
  }
}

/** A client of Cloudflare's API that uses the operator's login. */
export class CloudflareApi {
  /** The path of the Cloudflare account in the API, such as `/accounts/ID`. */
  readonly account: string;
  readonly #request: Request;

  private constructor(account: string, send: Request) {
    this.account = account;
    this.#request = send;
  }

  /**
   * Creates an API client with the login and the Cloudflare account that wrangler would use.
   *
   * @throws {NotLoggedInError} if there is no login; an Error for the operator if the login has
   *   several accounts and `CLOUDFLARE_ACCOUNT_ID` is not set.
   */
  static async open(): Promise<CloudflareApi> {
    const {
      CLOUDFLARE_API_TOKEN: token,
      CLOUDFLARE_ACCOUNT_ID: account,
      CLOUDFLARE_API_BASE_URL: base = CLOUDFLARE_API,
    } = process.env;
    const login = token ? { Authorization: `Bearer ${token}` } : await wranglerLogin();
    const send: Request = (path, call) => request(base, path, login, call);
    return new CloudflareApi(`/accounts/${account || (await onlyAccount(send))}`, send);
  }

  /**
   * Calls the API and returns the `result` of its response.
   *
   * @param path starts with the value of `account` or with `/zones`.
   * @throws {CloudflareError} if Cloudflare refuses the call, does not respond, or returns a result
   *   that does not match the schema.
   */
  async call<T>(path: string, schema: z.ZodType<T>, call: Call = {}): Promise<T> {
    return parse(path, z.object({ result: schema }), await this.#request(path, call)).result;
  }

  /** Posts to one of the analytics APIs, whose responses have no `result`, as `call` does. */
  async query<T>(path: string, schema: z.ZodType<T>, body: object | string): Promise<T> {
    return parse(path, schema, await this.#request(path, { method: "POST", body }));
  }
}

type Request = (path: string, call: Call) => Promise<unknown>;

/** Returns the parsed body of a response that reports no error. */
async function request(
  base: string,
  path: string,
  login: Readonly<Record<string, string>>,
  { method = "GET", body }: Call,
): Promise<unknown> {
  const name = `${method} ${withoutAccount(path)}`;
  const isJson = typeof body === "object";
  let response: Response;
  let text: string;
  try {
    response = await fetch(base + path, {
      method,
      headers: { ...login, ...(isJson && { "Content-Type": "application/json" }) },
      ...(body !== undefined && { body: isJson ? JSON.stringify(body) : body }),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    text = await response.text();
  } catch (cause) {
    throw new CloudflareError(name, `no answer: ${(cause as Error).message}`, { cause });
  }
  const { status, ok } = response;
  const value = parseJson(text);
  const answer = answerSchema.safeParse(value).data;
  const errors = answer?.errors ?? [];
  if (ok && answer !== undefined && answer.success !== false && errors.length === 0) return value;
  const reasons = errors.map(({ message, code }) =>
    code == null ? message : `${message} [code: ${code}]`,
  );
  const said = reasons.join("; ") || text.trim().slice(0, 200) || "no reason given";
  const advice = [401, 403].includes(status)
    ? ": check the login (`npx wrangler login`) or the token's permissions (docs/operating.md, Tokens)"
    : "";
  const reason = `${ok && reasons.length === 0 ? "malformed answer: " : ""}${said} (HTTP ${status})${advice}`;
  throw new CloudflareError(name, reason, {
    status,
    codes: errors.flatMap(({ code }) => code ?? []),
  });
}

function parse<T>(path: string, schema: z.ZodType<T>, answer: unknown): T {
  const parsed = schema.safeParse(answer);
  if (parsed.success) return parsed.data;
  throw new CloudflareError(
    withoutAccount(path),
    `malformed answer: ${z.prettifyError(parsed.error)}`,
  );
}

async function wranglerLogin(): Promise<Readonly<Record<string, string>>> {
  const { stdout } = await runWrangler(["auth", "token", "--json"]).catch((cause: Error) => {
    throw new NotLoggedInError(cause);
  });
  const login = z
    .union([z.object({ token: z.string() }), z.object({ key: z.string(), email: z.string() })])
    .parse(JSON.parse(stdout));
  return "token" in login
    ? { Authorization: `Bearer ${login.token}` }
    : { "X-Auth-Key": login.key, "X-Auth-Email": login.email };
}

async function onlyAccount(send: Request): Promise<string> {
  const schema = z.object({ result: z.array(z.object({ id: z.string() })) });
  const accounts = parse("/accounts", schema, await send("/accounts", {})).result;
  const [account] = accounts;
  if (account !== undefined && accounts.length === 1) return account.id;
  throw new Error(
    `the login has ${accounts.length} accounts: set CLOUDFLARE_ACCOUNT_ID to one of them`,
  );
}

function withoutAccount(path: string): string {
  return path.replace(/^\/accounts\/\w+/, "").replace(/\?.*/, "");
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
