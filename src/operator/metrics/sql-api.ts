import { z } from "zod";
import type { CloudflareApi } from "../cloudflare-api.ts";

const answerSchema = z.object({
  meta: z.array(z.object({ name: z.string(), type: z.string() })),
  data: z.array(z.record(z.string(), z.union([z.string(), z.number(), z.null()]))),
});

/** A row of a query's result, with the columns in the order of the SQL statement. */
type Row = Readonly<Record<string, string | number | null>>;

/**
 * Runs a statement on the SQL API of Workers Analytics Engine.
 *
 * @throws {CloudflareError} if Cloudflare refuses the statement or does not respond.
 */
export async function querySqlApi(api: CloudflareApi, sql: string): Promise<readonly Row[]> {
  return toRows(await api.query(`${api.account}/analytics_engine/sql`, answerSchema, sql));
}

/**
 * Converts the numbers in a response of the SQL API, because this API sends 64-bit integers as
 * strings.
 */
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
