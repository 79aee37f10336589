import { z } from "zod";
import { callCloudflare } from "./cloudflare-api.ts";

const answerSchema = z.object({
  meta: z.array(z.object({ name: z.string(), type: z.string() })),
  data: z.array(z.record(z.string(), z.union([z.string(), z.number(), z.null()]))),
});

/** A row of a result, with the columns in the order of the statement. */
type Row = Readonly<Record<string, string | number | null>>;

/**
 * Runs a statement on the SQL API of Workers Analytics Engine.
 *
 * @param env has `CLOUDFLARE_ACCOUNT_ID` and `CLOUDFLARE_API_TOKEN`.
 * @throws an Error for the operator if Cloudflare refuses the statement.
 */
export async function querySqlApi(sql: string, env: NodeJS.ProcessEnv): Promise<readonly Row[]> {
  const answer = await callCloudflare(
    {
      api: "Analytics Engine",
      path: (account) => `/accounts/${account}/analytics_engine/sql`,
      body: () => sql,
    },
    env,
  );
  return toRows(answerSchema.parse(answer));
}

/** Converts the numbers in a response, because the API sends 64-bit integers as strings. */
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
