import { z } from "zod";
import { runWrangler } from "./wrangler.ts";

const CLOUDFLARE_API = "https://api.cloudflare.com/client/v4";
/** Limits an API call: a D1 query runs for up to 30 seconds, and may first wait in a queue. */
const TIMEOUT_MS = 90_000;

const answerSchema = z.looseObject({
  success: z.boolean().optional(),
  errors: z.array(z.object({ code: z.number().nullish(), message: z.string() })).nullish(),
});
const accountsSchema = z.array(z.object({ id: z.string() }));

/** Thrown if there is neither a login of wrangler nor a token. */
export class NotLoggedInError extends Error {}

/** Thrown if Cloudflare's API refuses a call or sends no usable response. */
export class CloudflareError extends Error {
  /** Cloudflare's messages, error codes and HTTP status, or why there is no usable response. */
  readonly reason: string;
  /** The error codes in Cloudflare's response; empty if Cloudflare did not respond. */
  readonly codes: readonly number[];
  /** True for a 4xx except 408 and 429: the call changed nothing, and a retry would fail too. */
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

type Login = Readonly<Record<string, string>>;

/** A client of Cloudflare's API that uses the operator's login. */
export class CloudflareApi {
  /** The path of the account in the API, such as `/accounts/ID`. */
  readonly account: string;
  readonly #base: string;
  readonly #login: Login;

  private constructor(account: string, base: string, login: Login) {
    this.account = account;
    this.#base = base;
    this.#login = login;
  }

  /**
   * Logs in with `CLOUDFLARE_API_TOKEN`, or else with wrangler's login.
   *
   * @throws {NotLoggedInError} if there is no login; an Error for the operator if the login has no
   *   account or several, and `CLOUDFLARE_ACCOUNT_ID` is not set.
   */
  static async open(): Promise<CloudflareApi> {
    const {
      CLOUDFLARE_API_TOKEN: token,
      CLOUDFLARE_ACCOUNT_ID: id,
      CLOUDFLARE_API_BASE_URL: base = CLOUDFLARE_API,
    } = process.env;
    const login = token ? { Authorization: `Bearer ${token}` } : await wranglerLogin();
    if (id) return new CloudflareApi(`/accounts/${id}`, base, login);
    const accounts = await new CloudflareApi("", base, login).call("/accounts", accountsSchema);
    const [only] = accounts;
    if (only !== undefined && accounts.length === 1) {
      return new CloudflareApi(`/accounts/${only.id}`, base, login);
    }
    throw new Error(
      `the login has ${accounts.length} accounts: set CLOUDFLARE_ACCOUNT_ID to one of them`,
    );
  }

  /**
   * Calls the API and returns the `result` of its response.
   *
   * @param path starts with the value of `account` or with `/zones`.
   * @throws {CloudflareError} if Cloudflare refuses the call, does not respond, or returns a result
   *   that does not match the schema.
   */
  async call<T>(
    path: string,
    schema: z.ZodType<T>,
    {
      method = "GET",
      body,
    }: { readonly method?: "GET" | "POST" | "PATCH"; readonly body?: object } = {},
  ): Promise<T> {
    const ownPath = path.replace(/^\/accounts\/\w+/, "").replace(/\?.*/, "");
    const name = `${method} ${ownPath}`;
    let response: Response;
    let text: string;
    try {
      response = await fetch(this.#base + path, {
        method,
        headers: { ...this.#login, "Content-Type": "application/json" },
        ...(body !== undefined && { body: JSON.stringify(body) }),
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      text = await response.text();
    } catch (cause) {
      throw new CloudflareError(name, `no answer: ${(cause as Error).message}`, { cause });
    }
    const { status, ok } = response;
    const answer = answerSchema.safeParse(parseJson(text)).data;
    const errors = answer?.errors ?? [];
    if (ok && answer !== undefined && answer.success !== false && errors.length === 0) {
      const parsed = schema.safeParse(answer["result"]);
      if (parsed.success) return parsed.data;
      throw new CloudflareError(ownPath, `malformed answer: ${z.prettifyError(parsed.error)}`);
    }
    const reasons = errors.map(({ message, code }) =>
      code == null ? message : `${message} [code: ${code}]`,
    );
    const said = reasons.join("; ") || text.trim().slice(0, 200) || "no reason given";
    const advice = [401, 403].includes(status)
      ? ": check the login (`npx wrangler login`) or the token's permissions (docs/operating.md, Tokens)"
      : "";
    const reason = `${ok && reasons.length === 0 ? "malformed answer: " : ""}${said} (HTTP ${status})${advice}`;
    const codes = errors.flatMap(({ code }) => code ?? []);
    throw new CloudflareError(name, reason, { status, codes });
  }
}

async function wranglerLogin(): Promise<Login> {
  const { stdout } = await runWrangler(["auth", "token", "--json"]).catch((cause: Error) => {
    const reason = /not logged in/i.test(cause.message) ? "" : ` (${cause.message})`;
    throw new NotLoggedInError(
      `not logged in to Cloudflare: run \`npx wrangler login\`, or set CLOUDFLARE_API_TOKEN to a valid token${reason}`,
      { cause },
    );
  });
  const login = z
    .union([z.object({ token: z.string() }), z.object({ key: z.string(), email: z.string() })])
    .parse(JSON.parse(stdout));
  return "token" in login
    ? { Authorization: `Bearer ${login.token}` }
    : { "X-Auth-Key": login.key, "X-Auth-Email": login.email };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
