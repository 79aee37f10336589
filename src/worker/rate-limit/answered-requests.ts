/** The room for 256 requests: at 1,000 requests a second, those of the last quarter of a second. */
const MAX_LENGTH = 6_400;

/** How long a request is remembered: no call to the object lasts longer, its repetitions included. */
const REMEMBERED_MS = 30_000;

/** A request that was decided and counted, and may be sent again because its answer was lost. */
export interface AnsweredRequest {
  /** Drawn by the isolate for the request, and the same each time that it sends the request. */
  readonly nonce: string;
  /** Unix time in milliseconds of the decision. */
  readonly atMs: number;
  readonly admitted: boolean;
}

/**
 * The last requests, the oldest first, a line each: nonce, time in base 36, and 1 if admitted. One
 * text, because every admission stores all of them, and a list of objects takes far longer to store.
 */
export type AnsweredRequests = string;

/** Adds the newest request and forgets those that nobody sends again. */
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

/** Returns whether the request with this nonce was admitted when it was last decided. */
export function recall(answered: AnsweredRequests, nonce: string): boolean | undefined {
  const start = `\n${answered}`.lastIndexOf(`\n${nonce} `);
  return start === -1 ? undefined : answered[answered.indexOf("\n", start) - 1] === "1";
}

function timeAt(answered: AnsweredRequests, start: number): number {
  const timeStart = answered.indexOf(" ", start) + 1;
  return parseInt(answered.slice(timeStart, answered.indexOf(" ", timeStart)), 36);
}
