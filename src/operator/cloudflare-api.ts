import { z } from "zod";
import type { Settings } from "./settings.ts";
import { runWrangler } from "./wrangler.ts";

const CLOUDFLARE_API = "https://api.cloudflare.com/client/v4";
/** When a hanging call is reported, and given up: D1 queues queries of up to 30 s. Tests change it. */
export const API_PATIENCE = { noticeMs: 10_000, timeoutMs: 120_000 };

/** The reason of a call that was given up, which is not repeated. */
export const HUNG = "nothing came in two minutes";

/** Matches refusals of the login. Cloudflare's code 6003 is for a text that is no token. */
const LOGIN = /\[code: 6003\]|\(HTTP 40[13]\)$/;

const answerSchema = z.object({
  errors: z.array(z.object({ code: z.number(), message: z.string() })).nullish(),
  result: z.unknown().optional(),
});
const accountsSchema = z.array(z.object({ id: z.string(), name: z.string() }));

/** A client of Cloudflare's API that uses the operator's login. */
export type CloudflareApi = Awaited<ReturnType<typeof logIn>>;

/**
 * Logs in with `CLOUDFLARE_API_TOKEN`, or else with wrangler's login.
 *
 * @throws an Error for the operator if there is no login, or not exactly one account and none chosen.
 */
export async function logIn({ accountId: configured }: Pick<Settings, "accountId">) {
  const { CLOUDFLARE_API_TOKEN, CLOUDFLARE_ACCOUNT_ID } = process.env;
  const token = CLOUDFLARE_API_TOKEN || (await wranglerToken());
  const listAccounts = () => callApi(token, "/accounts", accountsSchema);
  const accountId = configured || CLOUDFLARE_ACCOUNT_ID || onlyOne(await listAccounts());
  return {
    accountId,
    /** Calls the API with the path of an account, such as `/d1/database`. See `callApi`. */
    call: <T>(path: string, schema: z.ZodType<T>, body?: object) =>
      callApi(token, `/accounts/${accountId}${path}`, schema, body),
    /** Returns the name and id of the account; only the id if the token may not read the name. */
    describeAccount: async () => {
      const accounts = await listAccounts().catch(() => []);
      const name = accounts.find(({ id }) => id === accountId)?.name;
      return name === undefined ? accountId : `${name} (${accountId})`;
    },
  };
}

function onlyOne(accounts: z.infer<typeof accountsSchema>): string {
  const [only, other] = accounts;
  if (only && !other) return only.id;
  const listed = accounts.map(({ name, id }) => `${name} (${id})`).join(", ") || "none";
  throw new Error(
    `the login has ${accounts.length} accounts, ${listed}: set account_id in wrangler.toml or ` +
      "CLOUDFLARE_ACCOUNT_ID to the one to use",
  );
}

/**
 * Calls the API, with POST if there is a `body`. Returns the `result` of the response.
 *
 * @throws an Error if Cloudflare refuses the call, does not respond, or returns a result that does not
 *   match the schema. Its message begins with `Cloudflare, GET /path: `.
 */
async function callApi<T>(token: string, path: string, schema: z.ZodType<T>, body?: object) {
  const method = body === undefined ? "GET" : "POST";
  const name = `${method} ${path.replace(/^\/accounts\/\w+|\?.*/g, "")}`;
  const fail = (reason: string, cause?: unknown) => {
    throw new Error(`Cloudflare, ${name}: ${reason}`, { cause });
  };
  const { CLOUDFLARE_API_BASE_URL: base = CLOUDFLARE_API } = process.env;
  using _notice = setTimeout(() => {
    const late = `Cloudflare has not answered ${name} for ten seconds`;
    process.stderr.write(`${late}. Waiting up to two minutes ...\n`);
  }, API_PATIENCE.noticeMs);
  const noAnswer = (cause: Error) => {
    const reason = cause.cause instanceof Error ? cause.cause.message : cause.message;
    return fail(cause.name === "TimeoutError" ? HUNG : `no answer: ${reason}`, cause);
  };
  const response = await fetch(base + path, {
    method,
    headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
    body: body === undefined ? null : JSON.stringify(body),
    signal: AbortSignal.timeout(API_PATIENCE.timeoutMs),
  }).catch(noAnswer);
  const received: unknown = await response.json().catch((error: Error) => {
    if (error.name !== "SyntaxError") noAnswer(error);
  });
  const { errors, result } = answerSchema.safeParse(received).data ?? {};
  if (response.ok && !errors?.length) {
    const parsed = schema.safeParse(result);
    if (parsed.success) return parsed.data;
    return fail(`malformed answer: ${z.prettifyError(parsed.error)}`);
  }
  const reasons = errors?.map(({ message, code }) => `${message} [code: ${code}]`).join("; ");
  const refusal = `${reasons || "no reason"} (HTTP ${response.status})`;
  const advice =
    "check the login (`npx wrangler login`) or the token's permissions (docs/operating.md, Tokens)";
  return fail(LOGIN.test(refusal) ? `${refusal}: ${advice}` : refusal);
}

async function wranglerToken(): Promise<string> {
  const stdout = await runWrangler(["auth", "token"]).catch((cause: Error) => {
    const advice = "run `npx wrangler login`, or set CLOUDFLARE_API_TOKEN to a valid token";
    throw new Error(`not logged in to Cloudflare: ${advice} (${cause.message})`, { cause });
  });
  // A notice before it would make a header that `fetch` refuses, and shows with the token.
  return stdout.trim().replace(/^[^]*\n/, "");
}
