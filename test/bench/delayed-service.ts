import service, { RateLimiter } from "../../src/worker/index.ts";
import { observedBindings } from "../support/observed-bindings.ts";

export { RateLimiter };

let delayMs = 0;

const observer = {
  beforeObjectCall() {},
  beforeQuery: (database: "ORDERS" | "KEYS") =>
    database === "ORDERS" && delayMs > 0 ? scheduler.wait(delayMs) : undefined,
  afterStatement() {},
};

/** The service. `PUT /delay` sets the delay before each query of orders in milliseconds. */
export default {
  async fetch(request, env, context) {
    if (new URL(request.url).pathname !== "/delay") {
      const bindings = delayMs === 0 ? env : observedBindings(env, observer);
      return service.fetch(request, bindings, context);
    }
    delayMs = Number(await request.text());
    return new Response(null, { status: 204 });
  },
} satisfies ExportedHandler<Cloudflare.Env>;
