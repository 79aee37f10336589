import { sleep } from "../../client/abort.ts";
import { codeOf, type Outcome } from "./answer.ts";

/** The number of parallel requests: a browser opens no more HTTP/1.1 connections to a host. */
const PARALLEL = 6;

interface Provocation {
  /** Sends a request with `If-None-Match: *`, so that every admitted request receives a 304. */
  readonly request: (signal: AbortSignal) => Promise<Outcome>;
  readonly say: (text: string) => void;
  readonly signal: AbortSignal;
}

/** Sends requests until an outcome is no 304, normally a refusal. Returns that outcome. */
export function provokeLimit(provocation: Provocation): Promise<Outcome> {
  let admitted = 0;
  return sendUntil(provocation, (outcome) => {
    if (outcome.kind !== "answer" || outcome.answer.status !== 304) return true;
    provocation.say(`${++admitted} requests admitted.`);
    return false;
  });
}

/**
 * Gets a key banned: sends requests until the first refusal, waits for `graceMs`, and then sends
 * requests whose refusals count as strikes (docs/limits.md, Bans). Returns the outcome that ended
 * the attempt: the ban, or an unexpected one.
 */
export async function provokeBan(provocation: Provocation, graceMs: number): Promise<Outcome> {
  const { say, signal } = provocation;
  const refused = await provokeLimit(provocation);
  if (!isRefusal(refused) || signal.aborted) return refused;
  say(`Refused. Refusals are free for ${graceMs / 1_000} seconds, so the page waits.`);
  await sleep(graceMs, signal).catch(() => {});
  let strikes = 0;
  return sendUntil(provocation, (outcome) => {
    if (!isRefusal(outcome)) return true;
    say(`${++strikes} strikes.`);
    return false;
  });
}

function isRefusal(outcome: Outcome): boolean {
  return outcome.kind === "answer" && codeOf(outcome.answer) === "rate_limit_exceeded";
}

/** Sends several requests at a time. Returns the first outcome for which `isLast` is true. */
async function sendUntil(
  { request, signal }: Provocation,
  isLast: (outcome: Outcome) => boolean,
): Promise<Outcome> {
  const others = new AbortController();
  const either = AbortSignal.any([signal, others.signal]);
  const untilLast = async (): Promise<Outcome> => {
    for (;;) {
      const outcome = await request(either);
      if (either.aborted || isLast(outcome)) return outcome;
    }
  };
  try {
    return await Promise.race(Array.from({ length: PARALLEL }, untilLast));
  } finally {
    others.abort();
  }
}
