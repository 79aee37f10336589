/** Requests that are remembered at most: at 1,000 requests a second, those of the last quarter of a second. */
const MAX_REMEMBERED = 256;

/** How long one is remembered: no call to the object lasts longer, its repetitions included. */
const REMEMBERED_MS = 30_000;

/** A request that was decided and counted, and may be sent again because its answer was lost. */
export interface AnsweredRequest {
  /** What the isolate drew for the request, the same each time that it sends it. */
  readonly nonce: string;
  /** Unix time in milliseconds of the decision. */
  readonly atMs: number;
  readonly admitted: boolean;
}

/** The last requests, the oldest first. */
export type AnsweredRequests = readonly AnsweredRequest[];

/** Adds the newest one and forgets those that nobody sends again. */
export function remember(answered: AnsweredRequests, newest: AnsweredRequest): AnsweredRequests {
  const { nonce, atMs: nowMs } = newest;
  const others = answered.filter(
    (other) => other.nonce !== nonce && nowMs - other.atMs < REMEMBERED_MS,
  );
  return [...others.slice(1 - MAX_REMEMBERED), newest];
}
