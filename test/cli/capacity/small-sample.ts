import type { Assumptions } from "../../../src/cli/capacity/assumptions.ts";
import { DEFAULT_ASSUMPTIONS } from "../../../src/cli/capacity/default-assumptions.ts";
import { PLANS } from "../../../src/db/schema.ts";

/** The default assumptions with so few keys simulated that it takes no time. */
export function smallSample(): Assumptions {
  const plans = Object.fromEntries(
    PLANS.map((plan) => [
      plan,
      { ...DEFAULT_ASSUMPTIONS.plans[plan], sample: plan === "enterprise" ? 8 : 30 },
    ]),
  ) as Assumptions["plans"];
  return { ...DEFAULT_ASSUMPTIONS, plans, runaways: { share: 0.0005, sample: 3 } };
}
