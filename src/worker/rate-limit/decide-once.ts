import type { Consequences } from "../usage/day-usage.ts";
import { type AnsweredRequests, recall, remember } from "./answered-requests.ts";
import type { BanPolicy } from "../limits/bans.ts";
import {
  type Decision,
  decide,
  type LimiterState,
  type QuotaPolicy,
  repeatDecision,
} from "../limits/decision.ts";

/** Everything that the object of a key decides by. */
export interface ObjectState {
  readonly record: LimiterState | null;
  readonly answered: AnsweredRequests;
}

/** A request as it reaches the object. */
export interface AdmitRequest {
  readonly policy: QuotaPolicy;
  /** Names the request each time that it is sent. `undefined` if the isolate runs an earlier version. */
  readonly nonce: string | undefined;
  /** Requests that isolates refused from memory: all of them, and when those were that may be strikes. */
  readonly refusedElsewhere: number;
  readonly refusedElsewhereMs: readonly number[];
}

interface DecidedOnce {
  readonly state: ObjectState;
  readonly decision: Decision;
  /** What is to be counted beside the decision; `null` if the request was counted before. */
  readonly consequences: Consequences | null;
}

/** Decides on a request as `decide` does, but counts a request that is sent again only once. Pure. */
export function decideOnce(
  { record, answered }: ObjectState,
  request: AdmitRequest,
  banPolicy: BanPolicy,
  nowMs: number,
): DecidedOnce {
  const { policy, nonce } = request;
  const wasAdmitted = nonce && recall(answered, nonce);
  const isFirst = typeof wasAdmitted !== "boolean";
  const repeated = isFirst ? null : repeatDecision(record, policy, banPolicy, nowMs, wasAdmitted);
  if (repeated) return { state: { record, answered }, decision: repeated, consequences: null };

  const refusedElsewhereMs = isFirst ? request.refusedElsewhereMs : [];
  const refusedElsewhere = isFirst ? request.refusedElsewhere : 0;
  const decided = decide(record, policy, banPolicy, nowMs, refusedElsewhereMs);
  const { decision, strikes, bans } = decided;
  const newest = nonce && { nonce, atMs: nowMs, admitted: decision.admitted };
  return {
    state: { record: decided.record, answered: newest ? remember(answered, newest) : answered },
    decision,
    consequences: { refusedElsewhere, strikes, bans },
  };
}
