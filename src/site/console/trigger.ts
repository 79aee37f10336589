import { type Answer, codeOf } from "./answer.ts";

/**
 * The number of simultaneous requests of `triggerLimit` and `triggerBan`. Browsers open at most six
 * HTTP/1.1 connections to a host.
 */
const PARALLEL = 6;

/** The functions through which `triggerLimit` and `triggerBan` report their progress. */
interface Progress {
  /** Called after every response. */
  readonly answered: (answer: Answer) => void;
  readonly say: (text: string) => void;
}

/**
 * Sends requests until one is refused. Every admitted request receives a 304, because `request`
 * sends `If-None-Match: *`.
 *
 * @returns the first response other than 304.
 */
export function triggerLimit(
  request: (signal: AbortSignal) => Promise<Answer>,
  { answered, say }: Progress,
  signal: AbortSignal,
): Promise<Answer> {
  let admitted = 0;
  return sendUntil(request, signal, (answer) => {
    answered(answer);
    if (answer.status !== 304) return true;
    say(`${++admitted} requests admitted.`);
    return false;
  });
}

/**
 * Gets a key banned: sends requests until the first refusal, waits for `graceMs`, and then sends
 * requests whose refusals count as strikes (docs/limits.md, Bans).
 *
 * @param graceMs the time after the first refusal in which refusals do not count as strikes.
 * @returns the response that ended the attempt: the ban, or an unexpected response.
 */
export async function triggerBan(
  request: (signal: AbortSignal) => Promise<Answer>,
  progress: Progress,
  graceMs: number,
  signal: AbortSignal,
): Promise<Answer> {
  const refused = await triggerLimit(request, progress, signal);
  if (codeOf(refused) !== "rate_limit_exceeded") return refused;
  progress.say(`Refused. Refusals are free for ${graceMs / 1_000} seconds, so the page waits.`);
  await pause(graceMs, signal);
  let strikes = 0;
  return sendUntil(request, signal, (answer) => {
    progress.answered(answer);
    if (codeOf(answer) !== "rate_limit_exceeded") return true;
    progress.say(`${++strikes} strikes.`);
    return false;
  });
}

/**
 * Sends several requests at a time until `isLast` returns true for a response.
 *
 * @returns this response.
 */
async function sendUntil(
  request: (signal: AbortSignal) => Promise<Answer>,
  signal: AbortSignal,
  isLast: (answer: Answer) => boolean,
): Promise<Answer> {
  const others = new AbortController();
  const either = AbortSignal.any([signal, others.signal]);
  const untilLast = async (): Promise<Answer> => {
    for (;;) {
      const answer = await request(either);
      if (isLast(answer)) return answer;
    }
  };
  try {
    return await Promise.race(Array.from({ length: PARALLEL }, untilLast));
  } finally {
    others.abort();
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason as Error);
    });
  });
}
