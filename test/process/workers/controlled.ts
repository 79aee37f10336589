import { env, exports } from "cloudflare:workers";
import { createApp } from "../../../src/worker/app.ts";
import { config, limiter } from "../../../src/worker/isolate.ts";
import { LIST_SIZES } from "../../../src/worker/orders/list-sizes.ts";
import { wrapDatabase } from "../../support/wrapped-bindings.ts";
import { decode, encode } from "./json.ts";

export { ApiKeys } from "../../../src/worker/entrypoints/api-keys.ts";
export { Orders } from "../../../src/worker/entrypoints/orders.ts";
export { RateLimiter } from "../../../src/worker/limiter/durable-object.ts";

/** The sizes of lists that the var `SIZES` replaces, as JSON. */
const { SIZES = "{}" } = env as { SIZES?: string };
const app = createApp(config, limiter, JSON.parse(SIZES));

const log: unknown[] = [];
for (const level of ["log", "info", "warn", "error"] as const) {
  console[level] = (...line) => void log.push(line);
}

const systemNow = Date.now;
let aheadMs = 0;
// The limiter's Durable Objects run in the same isolate, so this also replaces their clock.
Date.now = () => systemNow() + aheadMs;

/** The counts since queries of orders wait; `null` if they do not wait. */
let held: { requests: number; queries: number } | null = null;
const observed = ({ ORDERS, ...bindings }: Cloudflare.Env): Cloudflare.Env => ({
  ...bindings,
  ORDERS: wrapDatabase(ORDERS, async (call) => {
    if (held !== null) held.queries += 1;
    // Polls, because requests cannot share a timer.
    while (held !== null) await scheduler.wait(5);
    return call();
  }),
});

const LEAVING = 2 * LIST_SIZES.concurrency;
const STAYING = 10;

/**
 * Aborts those of several clients that run queries of lists, and some that wait for them: locally, a
 * closed connection would cancel no request. Responds with all statuses; 499 for an aborted one.
 */
async function leaveTogether({ headers }: Request): Promise<Response> {
  const counts = (held = { requests: 0, queries: 0 });
  const url = "http://localhost/v1/store/orders";
  const client = new AbortController();
  const ask = (count: number, init: RequestInit) =>
    Array.from({ length: count }, async () =>
      exports.default.fetch(url, init).then(
        ({ status }) => status,
        () => 499,
      ),
    );
  const leaving = ask(LEAVING, { headers, signal: client.signal });
  while (counts.queries < LIST_SIZES.concurrency) await scheduler.wait(5);
  const staying = ask(STAYING, { headers });
  while (counts.requests < LEAVING + STAYING) await scheduler.wait(5);
  client.abort();
  const statuses = await Promise.all(leaving);
  held = null;
  return Response.json([...statuses, ...(await Promise.all(staying))]);
}

/** Calls the method that a request names, of an entrypoint for this actor. */
async function callEntrypoint(request: Request): Promise<Response> {
  const { entrypoint, actor, method, args } = JSON.parse(await request.text(), decode);
  const methods: Record<string, (...args: unknown[]) => Promise<unknown>> = (exports as any)[
    entrypoint
  ]({ props: { actor } });
  const answer = await methods[method]!(...args).then(
    (value) => ({ value }),
    (error: Error) => ({ error: error.message }),
  );
  return new Response(JSON.stringify(answer, encode));
}

/** The service, with paths that tell its log, move its clock, and for the functions above. */
export default {
  fetch(request, bindings, context) {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname === "/log") return Response.json(log);
    if (pathname === "/leave") return leaveTogether(request);
    if (pathname === "/call") return callEntrypoint(request);
    if (pathname === "/clock") {
      aheadMs += Number(searchParams.get("ms"));
      return new Response();
    }
    if (held !== null) held.requests += 1;
    return app.fetch(request, observed(bindings), context);
  },
} satisfies ExportedHandler<Cloudflare.Env>;
