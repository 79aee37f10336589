/**
 * The maximum length in characters, enough for 200 requests. At 1,000 requests a second, these are
 * the requests of the last fifth of a second.
 */
const MAX_LENGTH = 3_000;

/**
 * The maximum length in characters on disk, enough for 32 requests. With this maximum, the row of a
 * key has fewer than 1,002 bytes. A longer row needs an overflow page of SQLite, which makes every
 * write slower.
 */
const MAX_STORED_LENGTH = 480;

/**
 * A request that the Durable Object has decided on and counted. The isolate may send the request
 * again if the response was lost.
 */
interface AnsweredRequest {
  /** Random text from the isolate. If the isolate sends a request again, it uses the same nonce. */
  readonly nonce: string;
  readonly admitted: boolean;
}

/**
 * The last requests, the oldest first. Each line has the nonce and 1 for admitted or 0 for refused.
 *
 * A text, because it is far faster to store than a list of objects.
 */
export type AnsweredRequests = string;

/** Adds the newest request. Drops the oldest requests if the text becomes too long. */
export function remember(
  answered: AnsweredRequests,
  { nonce, admitted }: AnsweredRequest,
): AnsweredRequests {
  return newest(`${answered}${nonce} ${Number(admitted)}\n`, MAX_LENGTH);
}

/**
 * Returns the newest requests, which the Durable Object stores. After a restart, it forgets the
 * others.
 */
export function newestToStore(answered: AnsweredRequests): AnsweredRequests {
  return newest(answered, MAX_STORED_LENGTH);
}

function newest(answered: AnsweredRequests, maxLength: number): AnsweredRequests {
  const excess = answered.length - maxLength;
  return excess <= 0 ? answered : answered.slice(answered.indexOf("\n", excess - 1) + 1);
}

/**
 * Returns whether the latest decision on the request with this nonce was an admission; `undefined`
 * if the nonce is not remembered.
 */
export function recall(answered: AnsweredRequests, nonce: string): boolean | undefined {
  const start = `\n${answered}`.lastIndexOf(`\n${nonce} `);
  return start === -1 ? undefined : answered[start + nonce.length + 1] === "1";
}
