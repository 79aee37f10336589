import { z } from "zod";

const CLOUDFLARE_API = "https://api.cloudflare.com/client/v4";
const TIMEOUT_MS = 60_000;

const answerSchema = z.object({
  meta: z.array(z.object({ name: z.string(), type: z.string() })),
  data: z.array(z.record(z.string(), z.union([z.string(), z.number(), z.null()]))),
});

const failureSchema = z.object({ errors: z.array(z.object({ message: z.string() })).min(1) });

/** A row of a result, with its columns in order. */
type Row = Readonly<Record<string, string | number | null>>;

/**
 * Runs a statement on the SQL API of Workers Analytics Engine.
 *
 * @param env has `CLOUDFLARE_ACCOUNT_ID` and `CLOUDFLARE_API_TOKEN`.
 * @throws an Error for the operator.
 */
export async function querySqlApi(sql: string, env: NodeJS.ProcessEnv): Promise<readonly Row[]> {
  const { CLOUDFLARE_ACCOUNT_ID: account, CLOUDFLARE_API_TOKEN: token } = env;
  if (!account || !token) {
    throw new Error(
      "set CLOUDFLARE_ACCOUNT_ID, and CLOUDFLARE_API_TOKEN to a token with the permission Account Analytics: Read",
    );
  }
  const base = env["CLOUDFLARE_API_BASE_URL"] ?? CLOUDFLARE_API;
  const response = await fetch(`${base}/accounts/${account}/analytics_engine/sql`, {
    method: "POST",
    headers: { Authorization: `Bearer ${token}` },
    body: sql,
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`Analytics Engine: ${reason(text)} (${response.status})`);
  return toRows(answerSchema.parse(JSON.parse(text)));
}

/** Turns 64-bit integers into numbers, because the API sends them as strings. */
function toRows({ meta, data }: z.output<typeof answerSchema>): Row[] {
  const isNumber = new Map(meta.map(({ name, type }) => [name, /^(?:U?Int|Float)/.test(type)]));
  return data.map((row) =>
    Object.fromEntries(
      meta.map(({ name }) => {
        const value = row[name] ?? null;
        return [name, isNumber.get(name) && value !== null ? Number(value) : value];
      }),
    ),
  );
}

/** Extracts Cloudflare's message: JSON from the API, text from the database. */
function reason(text: string): string {
  try {
    return failureSchema
      .parse(JSON.parse(text))
      .errors.map(({ message }) => message)
      .join("; ");
  } catch {
    return text.trim().slice(0, 500) || "no reason given";
  }
}
