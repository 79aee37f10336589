import { type Answer, codeOf } from "./answer.ts";

/** Requests under way at once: browsers open no more connections to one host. */
const PARALLEL = 6;

/** How the page follows a trigger. */
interface Progress {
  /** Called after every answer. */
  readonly answered: (answer: Answer) => void;
  readonly say: (text: string) => void;
}

/** Sends requests until one is refused. @returns the first answer that is no success. */
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
 * Has a key banned: uses up a window, waits until the grace is over, and collects strikes.
 *
 * @param graceMs the time after the first refusal in which refusals are free.
 * @returns the answer that ended the attempt.
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

/** Sends requests, some at once, until `isLast` accepts an answer. @returns that answer. */
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
