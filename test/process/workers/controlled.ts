import { env, exports } from "cloudflare:workers";
import { createApp } from "../../../src/worker/app.ts";
import { config, limiter } from "../../../src/worker/isolate.ts";
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

/** Calls the method that a request names, of an entrypoint for this actor. */
async function callEntrypoint(request: Request): Promise<Response> {
  const { entrypoint, actor, method, args } = JSON.parse(await request.text(), decode);
  const methods = (exports as any)[entrypoint]({ props: { actor } });
  const answer = await methods[method](...args).then(
    (value: unknown) => ({ value }),
    (error: Error) => ({ error: error.message }),
  );
  return new Response(JSON.stringify(answer, encode));
}

/** The service, with paths that tell its log, move its clock, and call its entrypoints. */
export default {
  fetch(request, bindings, context) {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname === "/log") return Response.json(log);
    if (pathname === "/call") return callEntrypoint(request);
    if (pathname === "/clock") {
      aheadMs += Number(searchParams.get("ms"));
      return new Response();
    }
    return app.fetch(request, bindings, context);
  },
} satisfies ExportedHandler<Cloudflare.Env>;
