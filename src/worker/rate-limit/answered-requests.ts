/**
 * The maximum length in characters, enough for 200 requests. At 1,000 requests a second, these are
 * the requests of the last fifth of a second. With this maximum, the row of a key fits into one
 * SQLite page (4,096 bytes), which makes writing faster.
 */
const MAX_LENGTH = 3_200;

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
 * A text, because it is far faster to store than a list of objects, and every admission stores the
 * whole text.
 */
export type AnsweredRequests = string;

/** Adds the newest request. Drops the oldest requests if the text becomes too long. */
export function remember(
  answered: AnsweredRequests,
  { nonce, admitted }: AnsweredRequest,
): AnsweredRequests {
  const all = `${answered}${nonce} ${Number(admitted)}\n`;
  const excess = all.length - MAX_LENGTH;
  return excess <= 0 ? all : all.slice(all.indexOf("\n", excess - 1) + 1);
}

/**
 * Returns whether the latest decision on the request with this nonce was an admission; `undefined`
 * if the nonce is not remembered.
 */
export function recall(answered: AnsweredRequests, nonce: string): boolean | undefined {
  const start = `\n${answered}`.lastIndexOf(`\n${nonce} `);
  return start === -1 ? undefined : answered[start + nonce.length + 1] === "1";
}
