import type { FoundKey } from "./api-keys/key-by-hash.ts";
import type { ErrorCode } from "../rules/error-codes.ts";
import type { Quota } from "../rules/limits/decision.ts";
import type { Snapshot } from "./orders/list-database.ts";
import type { DecidedBy, Verdict } from "./limiter/limiter.ts";

/** The bindings, and the variables that middleware sets for later handlers of the same request. */
export interface AppEnv {
  Bindings: Cloudflare.Env;
  Variables: {
    requestId: string;
    /** The limiter's verdict on the request, which a handler may await. Unset for uncounted requests. */
    admission: Promise<Verdict>;
    decidedBy?: DecidedBy;
    servedBy?: Snapshot["servedBy"];
    /** The quota in the rate-limit headers. If unset, they show the budget of the client's address. */
    quota?: Quota;
    errorCode?: ErrorCode;
    apiKey: FoundKey;
  };
}
