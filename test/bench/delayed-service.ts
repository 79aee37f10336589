import service, { RateLimiter } from "../../src/worker/index.ts";
import { wrapBinding } from "../support/wrapped-bindings.ts";

export { RateLimiter };

/** The service. The var `DELAY_MS` is the delay before each query of orders in milliseconds. */
export default {
  fetch(request, env, context) {
    const { DELAY_MS = 0 } = env as { DELAY_MS?: string };
    if (DELAY_MS === 0) return service.fetch(request, env, context);
    const wait = () => scheduler.wait(Number(DELAY_MS));
    const ORDERS = wrapBinding(env.ORDERS, (call) => wait().then(call));
    return service.fetch(request, { ...env, ORDERS }, context);
  },
} satisfies ExportedHandler<Cloudflare.Env>;
