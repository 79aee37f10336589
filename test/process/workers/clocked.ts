import service, { RateLimiter } from "../../../src/worker/index.ts";

export { RateLimiter };

const systemNow = Date.now;
let aheadMs = 0;

// The limiter's Durable Objects run in the same isolate, so this assignment also replaces the
// objects' clock.
Date.now = () => systemNow() + aheadMs;

/** The service with an adjustable clock: `/clock?ms=N` moves the clock N milliseconds forward. */
export default {
  fetch(request, env, context) {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname !== "/clock") return service.fetch(request, env, context);
    aheadMs += Number(searchParams.get("ms"));
    return new Response();
  },
} satisfies ExportedHandler<Cloudflare.Env>;
