import { z } from "zod";
import type { Settings } from "./settings.ts";
import { runWrangler } from "./wrangler.ts";

const CLOUDFLARE_API = "https://api.cloudflare.com/client/v4";
/**
 * After which times an API call that hangs is reported, and given up. A D1 query runs for up to 30
 * seconds, and may first wait in a queue. Tests set shorter times.
 */
export const API_PATIENCE = { noticeMs: 10_000, timeoutMs: 120_000 };

/** The reason of a call that was given up, which is not repeated. */
export const HUNG = "nothing came in two minutes";

/** Cloudflare's error code for a text that is no token, with status 400. */
const BAD_TOKEN = 6003;

const answerSchema = z.object({
  errors: z.array(z.object({ code: z.number(), message: z.string() })).nullish(),
  result: z.unknown().optional(),
});
const accountsSchema = z.array(z.object({ id: z.string(), name: z.string() }));
const loginSchema = z.object({ token: z.string() });

/** Thrown if Cloudflare's API refuses a call or sends no usable response. */
export class CloudflareError extends Error {
  /** Cloudflare's messages, error codes and HTTP status, or why there is no usable response. */
  readonly reason: string;

  constructor(call: string, reason: string, cause?: unknown) {
    super(`Cloudflare, ${call}: ${reason}`, { cause });
    this.reason = reason;
  }
}

/** A client of Cloudflare's API that uses the operator's login. */
export class CloudflareApi {
  /** The path of the account in the API, such as `/accounts/ID`. */
  readonly account: string;
  readonly #token: string;

  private constructor(account: string, token: string) {
    this.account = account;
    this.#token = token;
  }

  /**
   * Logs in with `CLOUDFLARE_API_TOKEN`, or else with wrangler's login.
   *
   * @throws an Error for the operator if there is no login, or if the login has no account or several
   *   and none is chosen.
   */
  static async open({ accountId }: Pick<Settings, "accountId">): Promise<CloudflareApi> {
    const { CLOUDFLARE_API_TOKEN, CLOUDFLARE_ACCOUNT_ID } = process.env;
    const token = CLOUDFLARE_API_TOKEN || (await wranglerToken());
    const id = accountId || CLOUDFLARE_ACCOUNT_ID;
    if (id) return new CloudflareApi(`/accounts/${id}`, token);
    const accounts = await new CloudflareApi("", token).call("/accounts", accountsSchema);
    const [only] = accounts.length === 1 ? accounts : [];
    if (only) return new CloudflareApi(`/accounts/${only.id}`, token);
    const listed = accounts.map((each) => `${each.name} (${each.id})`).join(", ") || "none";
    throw new Error(
      `the login has ${accounts.length} accounts, ${listed}: set account_id in wrangler.toml or ` +
        "CLOUDFLARE_ACCOUNT_ID to the one to use",
    );
  }

  /** The environment variable that makes wrangler use this account. */
  get wranglerAccount(): { readonly CLOUDFLARE_ACCOUNT_ID: string } {
    return { CLOUDFLARE_ACCOUNT_ID: this.account.replace("/accounts/", "") };
  }

  /** Returns the name and id of the account; only the id if the token may not read the name. */
  async describeAccount(): Promise<string> {
    const id = this.wranglerAccount.CLOUDFLARE_ACCOUNT_ID;
    const accounts = await this.call("/accounts", accountsSchema).catch(() => []);
    const name = accounts.find((each) => each.id === id)?.name;
    return name === undefined ? id : `${name} (${id})`;
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
    const { CLOUDFLARE_API_BASE_URL: base = CLOUDFLARE_API } = process.env;
    const notice = setTimeout(() => {
      const late = `Cloudflare has not answered ${name} for ten seconds`;
      process.stderr.write(`${late}. Waiting up to two minutes ...\n`);
    }, API_PATIENCE.noticeMs);
    const receive = async () => {
      const response = await fetch(base + path, {
        method,
        headers: { Authorization: `Bearer ${this.#token}`, "Content-Type": "application/json" },
        ...(body !== undefined && { body: JSON.stringify(body) }),
        signal: AbortSignal.timeout(API_PATIENCE.timeoutMs),
      });
      const received: unknown = await response.json().catch((error: Error) => {
        if (error.name !== "SyntaxError") throw error;
      });
      return { status: response.status, received };
    };
    const { status, received } = await receive()
      .catch((cause: Error) => {
        const reason = cause.cause instanceof Error ? cause.cause.message : cause.message;
        const isHung = cause.name === "TimeoutError";
        throw new CloudflareError(name, isHung ? HUNG : `no answer: ${reason}`, cause);
      })
      .finally(() => clearTimeout(notice));
    const answer = answerSchema.safeParse(received).data;
    const errors = answer?.errors ?? [];
    if (status < 400 && errors.length === 0) {
      const result = schema.safeParse(answer?.result);
      if (result.success) return result.data;
      throw new CloudflareError(name, `malformed answer: ${z.prettifyError(result.error)}`);
    }
    const reasons = errors.map(({ message, code }) => `${message} [code: ${code}]`).join("; ");
    const isLogin = [401, 403].includes(status) || errors.some(({ code }) => code === BAD_TOKEN);
    const advice = isLogin
      ? ": check the login (`npx wrangler login`) or the token's permissions (docs/operating.md, Tokens)"
      : "";
    throw new CloudflareError(name, `${reasons || "no reason"} (HTTP ${status})${advice}`);
  }
}

async function wranglerToken(): Promise<string> {
  try {
    const { stdout } = await runWrangler(["auth", "token", "--json"]);
    return loginSchema.parse(JSON.parse(stdout)).token;
  } catch (cause) {
    throw new Error(
      "not logged in to Cloudflare: run `npx wrangler login`, or set CLOUDFLARE_API_TOKEN to a valid " +
        `token (${(cause as Error).message})`,
      { cause },
    );
  }
}
