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
const loginSchema = z.union([
  z.object({ token: z.string() }),
  z.object({ key: z.string(), email: z.string() }),
]);

/** Thrown if there is neither a login of wrangler nor a token. */
export class NotLoggedInError extends Error {}

/** Thrown if Cloudflare's API refuses a call or sends no usable response. */
export class CloudflareError extends Error {
  /** Cloudflare's messages, error codes and HTTP status, or why there is no usable response. */
  readonly reason: string;

  constructor(call: string, reason: string, cause?: unknown) {
    super(`Cloudflare, ${call}: ${reason}`, { cause });
    this.reason = reason;
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
    const [only, other] = accounts;
    if (only && !other) return new CloudflareApi(`/accounts/${only.id}`, base, login);
    throw new Error(
      `the login has ${accounts.length} accounts: set CLOUDFLARE_ACCOUNT_ID to one of them`,
    );
  }

  /**
   * Calls the API and returns the `result` of its response.
   *
   * @param path starts with the value of `account`.
   * @throws {CloudflareError} if Cloudflare refuses the call, does not respond, or returns a result
   *   that does not match the schema.
   */
  async call<T>(
    path: string,
    schema: z.ZodType<T>,
    { method = "GET", body }: { method?: "GET" | "POST"; body?: object } = {},
  ): Promise<T> {
    const name = `${method} ${path.replace(/^\/accounts\/\w+/, "").replace(/\?.*/, "")}`;
    const init: RequestInit = {
      method,
      headers: { ...this.#login, "Content-Type": "application/json" },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    };
    const { status, text } = await fetch(this.#base + path, init)
      .then(async (response) => ({ status: response.status, text: await response.text() }))
      .catch((cause: Error) => {
        throw new CloudflareError(name, `no answer: ${cause.message}`, cause);
      });
    const answer = answerSchema.safeParse(parseJson(text)).data;
    const errors = answer?.errors ?? [];
    const isRefused = status >= 400 || answer?.success === false || errors.length > 0;
    if (!isRefused) {
      const result = schema.safeParse(answer?.["result"]);
      if (result.success) return result.data;
      throw new CloudflareError(name, `malformed answer: ${z.prettifyError(result.error)}`);
    }
    const reasons = errors.map(({ message, code }) =>
      code == null ? message : `${message} [code: ${code}]`,
    );
    const said = reasons.join("; ") || text.trim().slice(0, 200) || "no reason given";
    const advice = [401, 403].includes(status)
      ? ": check the login (`npx wrangler login`) or the token's permissions (docs/operating.md, Tokens)"
      : "";
    throw new CloudflareError(name, `${said} (HTTP ${status})${advice}`);
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
  const login = loginSchema.parse(JSON.parse(stdout));
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
