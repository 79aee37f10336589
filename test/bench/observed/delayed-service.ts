import service, { RateLimiter } from "../../../src/worker/index.ts";
import { observedBindings } from "./bindings.ts";

export { RateLimiter };

/** The delays before each call of the bindings, in milliseconds. */
export interface Delays {
  readonly object: number;
  readonly orders: number;
  readonly keys: number;
}

let delays: Delays = { object: 0, orders: 0, keys: 0 };

const observer = {
  beforeObjectCall: () => scheduler.wait(delays.object),
  beforeQuery: (database: "ORDERS" | "KEYS") =>
    scheduler.wait(database === "ORDERS" ? delays.orders : delays.keys),
  afterStatement() {},
};

/** The service with a delay before each call of a binding. `PUT /delays` sets the delays. */
export default {
  async fetch(request, env, context) {
    if (new URL(request.url).pathname !== "/delays") {
      return service.fetch(request, observedBindings(env, observer), context);
    }
    delays = await request.json();
    return new Response(null, { status: 204 });
  },
} satisfies ExportedHandler<Cloudflare.Env>;
