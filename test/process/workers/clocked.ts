import service, { RateLimiter } from "../../../src/worker/index.ts";

export { RateLimiter };

const systemNow = Date.now;
let aheadMs = 0;

// The limiter's objects run in the same isolate, so the clock is theirs too.
Date.now = () => systemNow() + aheadMs;

/** The service with a clock that the test moves: `/clock?ms=N` moves it N milliseconds ahead. */
export default {
  fetch(request, env, context) {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname !== "/clock") return service.fetch(request, env, context);
    aheadMs += Number(searchParams.get("ms"));
    return new Response();
  },
} satisfies ExportedHandler<Cloudflare.Env>;
