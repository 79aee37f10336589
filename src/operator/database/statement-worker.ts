import type * as MiniflarePackage from "miniflare";
import type { Statement } from "./database.ts";

/**
 * A Worker that runs statements as one transaction. Miniflare's own stand-in for D1 in this process
 * keeps each statement, with its parameters, in workerd until it is collected here as garbage: of a
 * large import, all of them.
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
 * Runs the statements in that Worker.
 *
 * @returns the rows of each.
 * @throws an Error with the message of D1.
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
