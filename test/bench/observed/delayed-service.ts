import service, { RateLimiter } from "../../../src/worker/index.ts";
import { observedBindings } from "./bindings.ts";

export { RateLimiter };

interface DelayedEnv extends Cloudflare.Env {
  readonly DELAY_MS: number;
}

/** The service with a delay of `DELAY_MS` before every call of a binding. */
export default {
  fetch(request, env, context) {
    const delay = () => scheduler.wait(env.DELAY_MS);
    const observer = { beforeObjectCall: delay, beforeQuery: delay, afterStatement: () => {} };
    return service.fetch(request, observedBindings(env, observer), context);
  },
} satisfies ExportedHandler<DelayedEnv>;
