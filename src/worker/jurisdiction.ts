import type { Config } from "../rules/config.ts";

/**
 * Returns bindings whose Durable Objects never leave the jurisdiction of the environment, as its
 * databases do not. These are other objects than those without a jurisdiction.
 */
export function inJurisdiction<Bindings extends Pick<Cloudflare.Env, "RATE_LIMITER">>(
  bindings: Bindings,
  { jurisdiction }: Config,
): Bindings {
  if (jurisdiction === undefined) return bindings;
  return { ...bindings, RATE_LIMITER: bindings.RATE_LIMITER.jurisdiction(jurisdiction) };
}
