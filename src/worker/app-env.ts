import type { ApiKey } from "./api-keys/api-key.ts";
import type { ErrorCode } from "./errors.ts";
import type { Quota } from "./limits/decision.ts";
import type { RequestLimiter } from "./rate-limit/request-limiter.ts";
import type { LimitedKey } from "./rate-limit/limiter.ts";

/** What the handlers of a request share. */
export interface AppEnv {
  Bindings: Cloudflare.Env;
  Variables: {
    requestId: string;
    limiter: RequestLimiter;
    /** What the answer's rate-limit headers describe; the address's figures until it is set. */
    quota?: Quota;
    /** The `code` of an error answer. */
    errorCode?: ErrorCode;
    /** The key that the request came with, once it is authenticated. */
    apiKey: ApiKey;
    /** What counts the requests of that key. */
    limitedKey: LimitedKey;
  };
}
