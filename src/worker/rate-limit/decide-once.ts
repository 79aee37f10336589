import type { BanPolicy } from "../limits/bans.ts";
import {
  type Decision,
  decide,
  type LimiterState,
  type QuotaPolicy,
  repeatDecision,
} from "../limits/decision.ts";
import { WINDOW_NAMES, type WindowName } from "../limits/windows.ts";
import type { Consequences } from "../usage/day-usage.ts";
import { type AnsweredRequests, recall, remember } from "./answered-requests.ts";

/** The state from which the Durable Object of a key decides on requests. */
export interface ObjectState {
  readonly limiter: LimiterState | null;
  readonly answered: AnsweredRequests;
}

/** The parameters of a request that the Durable Object of the key decides on. */
export interface AdmitRequest {
  readonly policy: QuotaPolicy;
  /**
   * Identifies the request, also when it is sent again. `undefined` if the isolate runs an earlier
   * version of the service.
   */
  readonly nonce: string | undefined;
  /** The number of requests that isolates refused from memory since their last report. */
  readonly refusedElsewhere: number;
  /** Unix times in milliseconds of the refused requests that may be strikes, in ascending order. */
  readonly refusedElsewhereMs: readonly number[];
}

interface DecidedOnce {
  readonly state: ObjectState;
  readonly decision: Decision;
  /** The counts to add to the usage; `null` if the request was already counted. */
  readonly consequences: Consequences | null;
}

/**
 * Decides on a request like `decide`. A request that is sent again is counted only once. Pure.
 *
 * The state contains only the last requests, so on a very busy key a late retry may count twice
 * (docs/limits.md, When parts fail).
 */
export function decideOnce(
  { limiter, answered }: ObjectState,
  request: AdmitRequest,
  banPolicy: BanPolicy,
  nowMs: number,
): DecidedOnce {
  const { policy, nonce } = request;
  const wasAdmitted = nonce && recall(answered, nonce);
  const isFirst = typeof wasAdmitted !== "boolean";
  const repeated = isFirst ? null : repeatDecision(limiter, policy, banPolicy, nowMs, wasAdmitted);
  if (repeated) return { state: { limiter, answered }, decision: repeated, consequences: null };

  const refusedElsewhereMs = isFirst ? request.refusedElsewhereMs : [];
  const refusedElsewhere = isFirst ? request.refusedElsewhere : 0;
  const decided = decide(limiter, policy, banPolicy, nowMs, refusedElsewhereMs);
  const { decision, strikes, bans } = decided;
  const newest = nonce && { nonce, admitted: decision.admitted };
  return {
    state: { limiter: decided.state, answered: newest ? remember(answered, newest) : answered },
    decision,
    consequences: { refusedElsewhere, strikes, bans },
  };
}

/**
 * Returns whether a limiter state must be stored: a window, the ban or the revision of the key has
 * changed. Changes of the wait are not stored, because the wait need not survive a restart. Changed
 * limits alone are not stored, because every request sends the limits. If a changed revision were
 * not stored, an evicted limiter could accept the former limits from an isolate with an outdated
 * key.
 */
export function mustStore(before: LimiterState | null, after: LimiterState | null): boolean {
  if (after === null) return false;
  const hasChanged = (name: "ban" | "revision" | WindowName) =>
    (before?.[name] ?? null) !== after[name];
  return hasChanged("ban") || hasChanged("revision") || WINDOW_NAMES.some(hasChanged);
}
