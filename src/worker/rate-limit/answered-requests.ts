/** Enough characters for 256 requests: at 1,000 requests a second, the last quarter of a second. */
const MAX_LENGTH = 6_400;

/** The time that a request is remembered. No call lasts longer, retries included. */
const REMEMBERED_MS = 30_000;

/** A request that was decided and counted. Its isolate may send it again if the answer was lost. */
interface AnsweredRequest {
  /** Random text of the isolate, the same each time that the isolate sends the request. */
  readonly nonce: string;
  /** Unix time in milliseconds of the decision. */
  readonly atMs: number;
  readonly admitted: boolean;
}

/**
 * The last requests, the oldest first, one per line: nonce, time in base 36, and 1 if admitted.
 *
 * Every admission stores all of them. One text is far faster to store than a list of objects.
 */
export type AnsweredRequests = string;

/** Adds the newest request, and drops those that are too old or exceed the space. */
export function remember(
  answered: AnsweredRequests,
  { nonce, atMs, admitted }: AnsweredRequest,
): AnsweredRequests {
  const line = `${nonce} ${atMs.toString(36)} ${Number(admitted)}\n`;
  let start = 0;
  while (
    start < answered.length &&
    (answered.length - start + line.length > MAX_LENGTH ||
      atMs - timeAt(answered, start) >= REMEMBERED_MS)
  ) {
    start = answered.indexOf("\n", start) + 1;
  }
  return answered.slice(start) + line;
}

/** Returns whether the last decision on this nonce admitted it; `undefined` if it is not remembered. */
export function recall(answered: AnsweredRequests, nonce: string): boolean | undefined {
  const start = `\n${answered}`.lastIndexOf(`\n${nonce} `);
  return start === -1 ? undefined : answered[answered.indexOf("\n", start) - 1] === "1";
}

function timeAt(answered: AnsweredRequests, start: number): number {
  const timeStart = answered.indexOf(" ", start) + 1;
  return parseInt(answered.slice(timeStart, answered.indexOf(" ", timeStart)), 36);
}
