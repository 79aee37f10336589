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

/** The service. `/delay?ms=N` sets the delay before each query of orders in milliseconds. */
export default {
  async fetch(request, env, context) {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname !== "/delay") {
      const bindings = delayMs === 0 ? env : observedBindings(env, observer);
      return service.fetch(request, bindings, context);
    }
    delayMs = Number(searchParams.get("ms"));
    return new Response(null, { status: 204 });
  },
} satisfies ExportedHandler<Cloudflare.Env>;
