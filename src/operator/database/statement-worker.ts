import type * as MiniflarePackage from "miniflare";
import type { Statement } from "./database.ts";

/**
 * The source of a Worker that runs statements in one transaction. Replaces Miniflare's D1 client,
 * with which workerd keeps every statement of a large import in memory until this process collects
 * garbage.
 */
export const STATEMENT_WORKER = `
export default {
  async fetch(request, env) {
    const [database] = Object.values(env);
    const statements = await request.json();
    try {
      const prepared = statements.map(({ sql, params }) => database.prepare(sql).bind(...params));
      const results = await database.batch(prepared);
      return Response.json(results.map(({ results }) => results));
    } catch (error) {
      return new Response(error.message, { status: 500 });
    }
  },
};`;

/**
 * Runs the statements with `STATEMENT_WORKER`, in one transaction.
 *
 * @returns the rows of each statement.
 * @throws an Error with D1's message.
 */
export async function runStatements(
  miniflare: MiniflarePackage.Miniflare,
  statements: readonly Statement[],
): Promise<object[][]> {
  const body = JSON.stringify(statements.map(({ sql, params }) => ({ sql, params })));
  const response = await miniflare.dispatchFetch("http://localhost/", { method: "POST", body });
  if (!response.ok) throw new Error(await response.text());
  return (await response.json()) as object[][];
}
