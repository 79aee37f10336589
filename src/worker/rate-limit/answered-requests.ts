/**
 * Enough characters for 200 requests: at 1,000 requests a second, the last fifth of a second. The
 * row of a key then fits into one page of SQLite (4,096 bytes), which makes it faster to write.
 */
const MAX_LENGTH = 3_200;

/** A request that was decided and counted. Its isolate may send it again if the answer was lost. */
interface AnsweredRequest {
  /** Random text of the isolate, the same each time that the isolate sends the request. */
  readonly nonce: string;
  readonly admitted: boolean;
}

/**
 * The last requests, the oldest first, one per line: the nonce, and 1 if admitted.
 *
 * Every admission stores all of them. One text is far faster to store than a list of objects.
 */
export type AnsweredRequests = string;

/** Adds the newest request, and drops the oldest that exceed the space. */
export function remember(
  answered: AnsweredRequests,
  { nonce, admitted }: AnsweredRequest,
): AnsweredRequests {
  const all = `${answered}${nonce} ${Number(admitted)}\n`;
  const excess = all.length - MAX_LENGTH;
  return excess <= 0 ? all : all.slice(all.indexOf("\n", excess - 1) + 1);
}

/** Returns whether the last decision on this nonce admitted it; `undefined` if it is not remembered. */
export function recall(answered: AnsweredRequests, nonce: string): boolean | undefined {
  const start = `\n${answered}`.lastIndexOf(`\n${nonce} `);
  return start === -1 ? undefined : answered[start + nonce.length + 1] === "1";
}
