import { sleep } from "../../client/abort.ts";
import { errorIn, type Outcome } from "./request.ts";

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
  return sendWhile(provocation, isAdmission, "requests admitted");
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
  const last = await sendWhile(provocation, isRefusal, "strikes");
  if (!isAdmission(last)) return last;
  return { kind: "unsent", problem: "A new window opened before the ban. Try again." };
}

function isAdmission(outcome: Outcome): boolean {
  return outcome.kind === "response" && outcome.received.status === 304;
}

function isRefusal(outcome: Outcome): boolean {
  const code = outcome.kind === "response" ? errorIn(outcome.received)?.code : null;
  return code === "rate_limit_exceeded";
}

/** Sends several requests at a time while `isOne` of the outcomes. Returns the first other one. */
async function sendWhile(
  { request, say, signal }: Provocation,
  isOne: (outcome: Outcome) => boolean,
  what: string,
): Promise<Outcome> {
  const others = new AbortController();
  const either = AbortSignal.any([signal, others.signal]);
  let count = 0;
  const sendOn = async (): Promise<Outcome> => {
    const outcome = await request(either);
    if (either.aborted || !isOne(outcome)) return outcome;
    say(`${++count} ${what}.`);
    return sendOn();
  };
  try {
    return await Promise.race(Array.from({ length: PARALLEL }, sendOn));
  } finally {
    others.abort();
  }
}
