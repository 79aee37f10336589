import { z } from "zod";
import { NOT_LOGGED_IN } from "./database/remote-failure.ts";
import { runWrangler } from "./wrangler.ts";

const CLOUDFLARE_API = "https://api.cloudflare.com/client/v4";
const TIMEOUT_MS = 60_000;

const answerSchema = z.object({
  success: z.boolean(),
  errors: z.array(z.object({ code: z.number(), message: z.string() })),
  result: z.unknown(),
});

interface Call {
  readonly method?: "GET" | "POST" | "PUT";
  readonly body?: object;
}

/** Thrown if Cloudflare's API refuses a call or does not respond. */
export class CloudflareError extends Error {
  override readonly name = "CloudflareError";
  /** The error codes in Cloudflare's response; empty if Cloudflare did not respond. */
  readonly codes: readonly number[];

  constructor(message: string, codes: readonly number[] = [], options?: ErrorOptions) {
    super(message, options);
    this.codes = codes;
  }
}

/** A client of Cloudflare's API that uses the operator's login. */
export class CloudflareApi {
  /** The path of the Cloudflare account in the API, such as `/accounts/ID`. */
  readonly account: string;
  readonly #send: Send;

  private constructor(account: string, send: Send) {
    this.account = account;
    this.#send = send;
  }

  /**
   * Creates an API client with the login and the Cloudflare account that wrangler would use.
   *
   * @throws an Error for the operator if the operator is not logged in, or if the login has several
   *   accounts and `CLOUDFLARE_ACCOUNT_ID` is not set.
   */
  static async open(env: NodeJS.ProcessEnv = process.env): Promise<CloudflareApi> {
    const token = env["CLOUDFLARE_API_TOKEN"] || (await loginToken());
    const base = env["CLOUDFLARE_API_BASE_URL"] ?? CLOUDFLARE_API;
    const send: Send = (path, call) => request(`${base}${path}`, token, call);
    const account = env["CLOUDFLARE_ACCOUNT_ID"] || (await onlyAccount(send));
    return new CloudflareApi(`/accounts/${account}`, send);
  }

  /**
   * Calls the API and validates the result.
   *
   * @param path starts with the value of `account` or with `/zones`.
   * @throws {CloudflareError} if Cloudflare refuses the call, does not respond, or returns a result
   *   that does not match the schema `result`.
   */
  async call<T>(path: string, result: z.ZodType<T>, call: Call = {}): Promise<T> {
    return parse(path, result, await this.#send(path, call));
  }
}

type Send = (path: string, call: Call) => Promise<unknown>;

async function request(url: string, token: string, { method = "GET", body }: Call) {
  const response = await fetch(url, {
    method,
    headers: {
      Authorization: `Bearer ${token}`,
      ...(body !== undefined && { "Content-Type": "application/json" }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(TIMEOUT_MS),
  }).catch((error: Error) => {
    throw new CloudflareError(`Cloudflare does not answer: ${error.message}`, [], { cause: error });
  });
  const text = await response.text();
  const answer = answerSchema.safeParse(parseJson(text)).data;
  if (response.ok && answer?.success === true) return answer.result;
  const errors = answer?.errors ?? [];
  const reasons = errors.map(({ code, message }) => `${message} [code: ${code}]`).join("; ");
  const reason = reasons || text.trim().slice(0, 200) || `status ${response.status}`;
  throw new CloudflareError(
    `Cloudflare refused ${method} ${pathOf(url)}: ${reason}`,
    errors.map(({ code }) => code),
  );
}

function parse<T>(path: string, schema: z.ZodType<T>, result: unknown): T {
  const parsed = schema.safeParse(result);
  if (parsed.success) return parsed.data;
  throw new CloudflareError(
    `Cloudflare's answer to ${path} has an unknown form: ${z.prettifyError(parsed.error)}`,
  );
}

async function loginToken(): Promise<string> {
  const { stdout } = await runWrangler(["auth", "token", "--json"]).catch((error: Error) => {
    const isPlain = /not logged in/i.test(error.message);
    throw new Error(isPlain ? NOT_LOGGED_IN : `${NOT_LOGGED_IN} (${error.message})`, {
      cause: error,
    });
  });
  const login = z.object({ token: z.string() }).safeParse(JSON.parse(stdout));
  if (login.success) return login.data.token;
  throw new Error("a global API key is not supported: set CLOUDFLARE_API_TOKEN to a token instead");
}

async function onlyAccount(send: Send): Promise<string> {
  const schema = z.array(z.object({ id: z.string() }));
  const [account, ...others] = parse("/accounts", schema, await send("/accounts", {}));
  if (account !== undefined && others.length === 0) return account.id;
  throw new Error("name the account: set CLOUDFLARE_ACCOUNT_ID");
}

function pathOf(url: string): string {
  return new URL(url).pathname.replace(/^\/client\/v4/, "");
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
