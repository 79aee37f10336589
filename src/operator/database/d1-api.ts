import { z } from "zod";
import { runWrangler } from "../wrangler.ts";
import { BINDINGS } from "./database.ts";
import { D1ApiError, type RemoteTarget } from "./remote-failure.ts";

const CLOUDFLARE_API = "https://api.cloudflare.com/client/v4";
/**
 * A query takes up to 30 seconds in D1, and may first wait for other queries and for the upload.
 */
const TIMEOUT_MS = 90_000;

/**
 * The body of a request to D1's query API. If `params` is set, `sql` must be a single statement.
 */
interface D1Query {
  readonly sql: string;
  readonly params?: readonly (string | null)[];
}

interface Connection {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

const credentialsSchema = z.union([
  z.object({ token: z.string() }),
  z.object({ key: z.string(), email: z.string() }),
]);
const databaseSchema = z.object({ uuid: z.string() });
const userSchema = z.object({ accounts: z.array(z.object({ id: z.string() })) });
const answerSchema = z.object({
  errors: z.array(z.object({ code: z.number().nullish(), message: z.string() })),
  result: z.array(z.object({ results: z.array(z.record(z.string(), z.unknown())) })).nullish(),
});

/**
 * Gets the login and the id of a database from wrangler. Runs wrangler's commands one after
 * another, because each command may renew the login.
 *
 * @throws {WranglerError} if the operator is not logged in or the database does not exist; an Error
 *   if the login has several accounts and no account is named.
 */
export async function connect({ environment, name }: RemoteTarget): Promise<Connection> {
  const credentials = credentialsSchema.parse(await askWrangler("auth", "token"));
  const binding = [BINDINGS[name], "--env", environment];
  const { uuid } = databaseSchema.parse(await askWrangler("d1", "info", ...binding));
  const base = process.env["CLOUDFLARE_API_BASE_URL"] ?? CLOUDFLARE_API;
  return {
    url: `${base}/accounts/${await findAccount()}/d1/database/${uuid}/query`,
    headers:
      "token" in credentials
        ? { Authorization: `Bearer ${credentials.token}` }
        : { "X-Auth-Key": credentials.key, "X-Auth-Email": credentials.email },
  };
}

/** Returns the account that `CLOUDFLARE_ACCOUNT_ID` names, or else the login's only account. */
async function findAccount(): Promise<string> {
  const named = process.env["CLOUDFLARE_ACCOUNT_ID"];
  if (named) return named;
  const { accounts } = userSchema.parse(await askWrangler("whoami"));
  const [account] = accounts;
  if (account !== undefined && accounts.length === 1) return account.id;
  throw new Error(
    `the login has ${accounts.length} accounts: set CLOUDFLARE_ACCOUNT_ID to the account of the store`,
  );
}

async function askWrangler(...args: readonly string[]): Promise<unknown> {
  const { stdout } = await runWrangler([...args, "--json"]);
  return JSON.parse(stdout);
}

/**
 * Sends a query. D1 runs all statements of the query in one transaction.
 *
 * @returns the rows of the first statement.
 * @throws {D1ApiError} if Cloudflare responds with an error; the error of `fetch` if Cloudflare
 *   does not respond.
 */
export async function sendQuery({ url, headers }: Connection, query: D1Query): Promise<object[]> {
  const response = await fetch(url, {
    method: "POST",
    headers: { ...headers, "Content-Type": "application/json" },
    body: JSON.stringify(query),
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  const answer = parseAnswer(await response.text());
  if (!response.ok || answer.result == null) {
    const errors = answer.errors.map(({ message, code }) =>
      code == null ? message : `${message} [code: ${code}]`,
    );
    throw new D1ApiError(errors.join("\n") || "no reason given", response.status);
  }
  return answer.result[0]?.results ?? [];
}

function parseAnswer(text: string): z.output<typeof answerSchema> {
  try {
    return answerSchema.parse(JSON.parse(text));
  } catch {
    return { errors: [{ message: `malformed response: ${text.slice(0, 200)}` }] };
  }
}
