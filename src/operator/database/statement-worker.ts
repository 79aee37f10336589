import type * as MiniflarePackage from "miniflare";
import type { Statement } from "./database.ts";

/**
 * A Worker that runs statements as one transaction. Miniflare's own D1 client in this process keeps
 * each statement in workerd until it is garbage-collected here. In a large import that is all of
 * them.
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
 * Runs the statements in `STATEMENT_WORKER`.
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
