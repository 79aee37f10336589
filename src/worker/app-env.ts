import type { ApiKey } from "./api-keys/api-key.ts";
import type { ErrorCode } from "./errors.ts";
import type { Quota } from "./limit-rules/decision.ts";
import type { LimitedKey } from "./limiter/object-call.ts";
import type { Snapshot } from "./orders/list-queries.ts";
import type { DecidedBy } from "./limiter/limiter.ts";

/** The bindings, and the variables that middleware sets for later handlers of the same request. */
export interface AppEnv {
  Bindings: Cloudflare.Env;
  Variables: {
    requestId: string;
    /** The part of the limiter that decided on an authenticated request. */
    decidedBy?: DecidedBy;
    /** The key's last cancellation, as `OrderLists.renew` needs it. */
    lastCancellation: number;
    /** The database that served a list. */
    servedBy?: Snapshot["servedBy"];
    /** The quota in the rate-limit headers. If unset, they show the budget of the client's address. */
    quota?: Quota;
    /** The `code` of an error response. */
    errorCode?: ErrorCode;
    /** The key of an authenticated request. */
    apiKey: ApiKey;
    /** The part of `apiKey` that the key's limiter needs. */
    limitedKey: LimitedKey;
  };
}
