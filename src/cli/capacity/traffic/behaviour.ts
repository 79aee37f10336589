import type { Decision } from "../../../rate-limit/decision.ts";
import { retryAfterSeconds } from "../../../rate-limit/headers.ts";
import type { Assumptions } from "../assumptions.ts";

const BACKOFF = { firstMs: 500, longestMs: 60_000, tries: 10 };

/** What a client does when it is refused. */
export type Behaviour = keyof Assumptions["refused"];

/**
 * How long a client waits after a refusal before it tries again; `null` where it gives up what it
 * was about to do.
 *
 * @param refusals how often the request was refused by now: at least 1.
 * @param waitedMs how long ago it was sent first.
 */
export function waitAfter(
  behaviour: Behaviour,
  { decision, refusals, waitedMs }: { decision: Decision; refusals: number; waitedMs: number },
  { patienceMs, hammer }: Assumptions,
): number | null {
  switch (behaviour) {
    case "waits": {
      const retryAfterMs = retryAfterSeconds(decision) * 1_000;
      return retryAfterMs <= patienceMs ? retryAfterMs : null;
    }
    case "backsOff":
      return refusals > BACKOFF.tries
        ? null
        : Math.min(BACKOFF.longestMs, BACKOFF.firstMs * 2 ** (refusals - 1));
    case "hammers":
      return waitedMs < hammer.seconds * 1_000 ? 1_000 / hammer.perSecond : null;
  }
}
