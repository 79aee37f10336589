import { sleep } from "../../client/abort.ts";
import { type Answer, codeOf } from "./answer.ts";

/** The number of parallel requests: a browser opens no more HTTP/1.1 connections to a host. */
const PARALLEL = 6;

interface Provocation {
  /** Sends a request with `If-None-Match: *`, so that every admitted request receives a 304. */
  readonly request: (signal: AbortSignal) => Promise<Answer>;
  readonly say: (text: string) => void;
  readonly signal: AbortSignal;
}

/** Sends requests until a response is not 304, normally a refusal. Returns that response. */
export function provokeLimit(provocation: Provocation): Promise<Answer> {
  let admitted = 0;
  return sendUntil(provocation, (answer) => {
    if (answer.status !== 304) return true;
    provocation.say(`${++admitted} requests admitted.`);
    return false;
  });
}

/**
 * Gets a key banned: sends requests until the first refusal, waits for `graceMs`, and then sends
 * requests whose refusals count as strikes (docs/limits.md, Bans). Returns the response that ended
 * the attempt: the ban, or an unexpected response.
 */
export async function provokeBan(provocation: Provocation, graceMs: number): Promise<Answer> {
  const { say, signal } = provocation;
  const refused = await provokeLimit(provocation);
  if (codeOf(refused) !== "rate_limit_exceeded") return refused;
  say(`Refused. Refusals are free for ${graceMs / 1_000} seconds, so the page waits.`);
  await sleep(graceMs, signal);
  let strikes = 0;
  return sendUntil(provocation, (answer) => {
    if (codeOf(answer) !== "rate_limit_exceeded") return true;
    say(`${++strikes} strikes.`);
    return false;
  });
}

/** Sends several requests at a time. Returns the first response for which `isLast` is true. */
async function sendUntil(
  { request, signal }: Provocation,
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
