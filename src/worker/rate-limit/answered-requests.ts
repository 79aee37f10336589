/**
 * The maximum length of an `AnsweredRequests` text in memory, enough for 200 requests. On a key
 * with 1,000 requests a second, the text covers the last fifth of a second.
 */
const MAX_LENGTH = 3_000;

/**
 * The maximum length of an `AnsweredRequests` text on disk, enough for 32 requests. The row of a
 * key then has fewer than 1,002 bytes. A longer row would need an overflow page of SQLite, which
 * makes every write slower.
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
 * The last requests that the Durable Object decided on, the oldest first. Each line has a request's
 * nonce and 1 for admitted or 0 for refused.
 *
 * Text is far faster to store than a list of objects.
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
 * Returns only the newest requests, which the Durable Object stores. A restart loses the others.
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
