import clocked, { RateLimiter } from "../process/workers/clocked.ts";
import { failingDatabase } from "../support/database-double.ts";

export { RateLimiter };

let failure = "";

/**
 * The service with an adjustable clock (`clocked.ts`), whose orders database can fail. After a
 * request to `/fail?message=TEXT`, each statement fails with an error of this message. After a
 * request to `/fail` without a message, statements work again.
 */
export default {
  fetch(request, env, context) {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname === "/fail") {
      failure = searchParams.get("message") ?? "";
      return new Response();
    }
    if (failure === "") return clocked.fetch(request, env, context);
    const ORDERS = failingDatabase(() => Promise.reject(new Error(failure)));
    return clocked.fetch(request, { ...env, ORDERS }, context);
  },
} satisfies ExportedHandler<Cloudflare.Env>;
