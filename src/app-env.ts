import type { ApiKey } from "./api-keys/api-key.ts";
import type { Quota } from "./rate-limit/decision.ts";
import type { Limiter } from "./rate-limit/limiter.ts";

/** What the handlers of a request share. */
export interface AppEnv {
  Bindings: Cloudflare.Env;
  Variables: {
    requestId: string;
    limiter: Limiter;
    /** The client address whose failed authentications are counted together. */
    address: string;
    /** What the answer's rate-limit headers describe; the address's figures until it is set. */
    quota?: Quota;
    /** The key that the request came with, once it is authenticated. */
    apiKey: ApiKey;
  };
}
