import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Answer, LimitsModel } from "./limits-model.ts";
import { anyBanPolicy, anyHistory, anyLimits, play } from "./histories.ts";
import { SimulatedLimiter } from "./simulated-limiter.ts";

describe("any history of a key (docs/limits.md, Windows and Bans)", () => {
  test("gets the same decisions as from the reference model", () => {
    fc.assert(
      fc.property(
        anyLimits,
        anyBanPolicy,
        fc.boolean(),
        anyHistory,
        (limits, banPolicy, bans, history) => {
          const policy = { limits, revision: 1, resets: 0, bans };
          const limiter = new SimulatedLimiter(policy, banPolicy);
          const model = new LimitsModel(banPolicy);
          play(limiter, history, {
            requested(under, nowMs, { admitted, banned, minute, day, retryAtMs }) {
              const answer: Answer = { admitted, banned, minute, day, retryAtMs };
              expect(answer).toEqual(model.request(under, nowMs));
            },
            restarted: () => model.restart(),
          });
        },
      ),
      { numRuns: 1_000 },
    );
  });
});
