import { z } from "zod";

const CLOUDFLARE_API = "https://api.cloudflare.com/client/v4";
const TIMEOUT_MS = 60_000;

const failureSchema = z.object({ errors: z.array(z.object({ message: z.string() })).min(1) });

/** A call to one of Cloudflare's analytics APIs. */
interface ApiCall {
  /** The name of the API in error messages. */
  readonly api: string;
  readonly path: (account: string) => string;
  readonly body: (account: string) => string;
}

/**
 * Posts a query to one of Cloudflare's analytics APIs.
 *
 * @param env has `CLOUDFLARE_ACCOUNT_ID` and `CLOUDFLARE_API_TOKEN`.
 * @returns the parsed JSON of the response.
 * @throws an Error for the operator if a variable is missing or Cloudflare refuses the query.
 */
export async function callCloudflare(
  { api, path, body }: ApiCall,
  env: NodeJS.ProcessEnv,
): Promise<unknown> {
  const { CLOUDFLARE_ACCOUNT_ID: account, CLOUDFLARE_API_TOKEN: token } = env;
  if (!account || !token) {
    throw new Error(
      "set CLOUDFLARE_ACCOUNT_ID, and CLOUDFLARE_API_TOKEN to a token with the permission Account Analytics: Read",
    );
  }
  const base = env["CLOUDFLARE_API_BASE_URL"] ?? CLOUDFLARE_API;
  const response = await fetch(base + path(account), {
    method: "POST",
    headers: { Authorization: `Bearer ${token}` },
    body: body(account),
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${api}: ${reason(text)} (${response.status})`);
  return JSON.parse(text);
}

/** Extracts the error message from a response: the API sends JSON, Analytics Engine plain text. */
function reason(text: string): string {
  const start = text.trim().slice(0, 500) || "no reason given";
  try {
    return errorMessages(JSON.parse(text)) ?? start;
  } catch {
    return start;
  }
}

/** Returns the messages in the `errors` of a response; `null` if there are none. */
export function errorMessages(answer: unknown): string | null {
  const failure = failureSchema.safeParse(answer);
  return failure.success ? failure.data.errors.map(({ message }) => message).join("; ") : null;
}
