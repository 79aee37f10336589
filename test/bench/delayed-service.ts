import service, { RateLimiter } from "../../src/worker/index.ts";
import { wrapDatabase } from "../support/wrapped-bindings.ts";

export { RateLimiter };

let delayMs = 0;

/** The service. `PUT /delay` sets the delay before each query of orders in milliseconds. */
export default {
  async fetch(request, env, context) {
    if (new URL(request.url).pathname === "/delay") {
      delayMs = Number(await request.text());
      return new Response(null, { status: 204 });
    }
    if (delayMs === 0) return service.fetch(request, env, context);
    const ORDERS = wrapDatabase(env.ORDERS, (call) => scheduler.wait(delayMs).then(call));
    return service.fetch(request, { ...env, ORDERS }, context);
  },
} satisfies ExportedHandler<Cloudflare.Env>;
