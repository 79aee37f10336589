import ipaddr from "ipaddr.js";
import type { BanPolicy } from "../../rules/limits/bans.ts";
import type { Decision, Quota } from "../../rules/limits/decision.ts";
import type { QuotaPolicy } from "../../rules/limits/limiter-state.ts";
import { PLAN_LIMITS } from "../../rules/limits/plans.ts";
import { MemoryLimiter } from "./memory-limiter.ts";

/** The number of addresses that an isolate remembers. They take a few megabytes. */
const MAX_ADDRESSES = 10_000;

const POLICY: QuotaPolicy = { limits: PLAN_LIMITS.free, revision: 0, resets: 0 };

type HasHeaders = Pick<Request, "headers">;

/** Limits failed authentications by client address: in memory, without a Durable Object. */
export class AddressBudget {
  readonly #limiter: MemoryLimiter;

  constructor(bans: BanPolicy, maxAddresses = MAX_ADDRESSES) {
    this.#limiter = new MemoryLimiter({ ...bans, mode: "off" }, maxAddresses);
  }

  /** Counts a failed authentication, or refuses it if the budget of its address is used up. */
  countFailure(request: HasHeaders): Decision {
    return this.#limiter.admit(addressOf(request), POLICY);
  }

  /** Returns what is left of the budget, without counting a failed authentication. */
  peek(request: HasHeaders): Quota {
    return this.#limiter.peek(addressOf(request), POLICY);
  }
}

/** Returns the client's IPv4 address or IPv6 network (docs/limits.md, Failed authentication). */
function addressOf({ headers }: HasHeaders): string {
  const header = headers.get("CF-Connecting-IP") ?? "";
  if (!ipaddr.isValid(header)) return "unknown";
  const address = ipaddr.process(header);
  if (address instanceof ipaddr.IPv4) return address.toString();
  const network = [...address.parts.slice(0, 4), 0, 0, 0, 0];
  return `${new ipaddr.IPv6(network).toString()}/64`;
}
