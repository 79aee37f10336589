import { exports } from "cloudflare:workers";
import delayed, { RateLimiter } from "./delayed-service.ts";

export { RateLimiter };

/**
 * The delayed service, whose clients leave after the milliseconds in `Leave-After`. That ends their
 * request as it does on Cloudflare; locally, a client that closes its connection does not.
 */
export default {
  async fetch(request, env, context) {
    const leaveAfter = request.headers.get("Leave-After");
    if (leaveAfter === null) return delayed.fetch(request, env, context);
    const headers = new Headers(request.headers);
    headers.delete("Leave-After");
    const signal = AbortSignal.timeout(Number(leaveAfter));
    return exports.default
      .fetch(request.url, { headers, signal })
      .catch(() => new Response("left", { status: 499 }));
  },
} satisfies typeof delayed;
