import { WINDOW_NAMES, type WindowName } from "../../src/rules/limits/windows.ts";
import type { Answer, Subject } from "./world.ts";

/** Two responses announce the same window if the announced ends differ by at most this time. */
const SAME_WINDOW_MS = 20_000;

/** The role of those who do not wait after a refusal. */
export const HAMMERING = "hammering";

export const bansOf = ({ answers }: Subject): Answer[] =>
  answers.filter(({ code }) => code === "api_key_banned");

/** Returns how the service violated docs/limits.md. */
export function violationsOf(subject: Subject): string[] {
  const bans = bansOf(subject);
  const wrong = [
    ...WINDOW_NAMES.flatMap((name) => judgeWindows(subject, name)),
    ...bans.flatMap((ban) => admissionsDuring(ban, subject.answers)),
  ];
  if (subject.role !== HAMMERING && bans.length > 0) wrong.push("a client that waits was banned");
  return wrong.map((what) => `${subject.name}: ${what}`);
}

/** No window admits more than its limit, loses a count, or refuses before it is full. */
function judgeWindows({ answers, unknownMs }: Subject, name: WindowName): string[] {
  const wrong: string[] = [];
  const windows: Answer[][] = [];
  const endsMs = answers.filter(isAdmitted).map((answer) => [endOf(answer, name), answer] as const);
  let lastMs = -Infinity;
  for (const [endMs, answer] of endsMs.toSorted(([one], [other]) => one - other)) {
    if (endMs - lastMs > SAME_WINDOW_MS) windows.push([]);
    windows.at(-1)!.push(answer);
    lastMs = endMs;
  }
  for (const admitted of windows) {
    const { limit } = admitted[0]![name];
    if (admitted.length > limit) wrong.push(`${admitted.length} of ${limit} in a ${name}`);
    const lefts = new Set(admitted.map((answer) => answer[name].remaining));
    if (lefts.size < admitted.length) wrong.push(`a count was lost in a ${name}`);
  }
  for (const refusal of answers) {
    if (refusal.code !== "rate_limit_exceeded" || refusal[name].remaining > 0) continue;
    const endMs = endOf(refusal, name);
    const window = windows.find(([one]) => Math.abs(endOf(one!, name) - endMs) < SAME_WINDOW_MS);
    const sinceMs = endMs - refusal[name].lengthSeconds * 1_000 - SAME_WINDOW_MS;
    const unknown = unknownMs.filter((sentMs) => sentMs > sinceMs);
    const most = (window?.length ?? 0) + unknown.length;
    if (most < refusal[name].limit) wrong.push(`refused after ${most} in a ${name}`);
  }
  return wrong;
}

/**
 * No request is admitted before the announced end of a ban. The announcement is rounded up to a second,
 * and one from an isolate's memory may be a second too long.
 */
function admissionsDuring(ban: Answer, answers: readonly Answer[]): string[] {
  const endMs = ban.sentMs + (ban.retryAfterSeconds! - 2) * 1_000;
  return answers
    .filter((one) => isAdmitted(one) && one.sentMs > ban.receivedMs && one.receivedMs < endMs)
    .map(({ receivedMs }) => `admitted ${Math.ceil(endMs - receivedMs)} ms before a ban's end`);
}

/** Returns whether the service admitted the request and counted it in both windows. */
const isAdmitted = ({ status }: Answer) => status !== 429 && status !== 503;

/** Estimates the end of a window. The error is up to 1 s plus half the request's duration. */
const endOf = ({ sentMs, receivedMs, ...windows }: Answer, name: WindowName) =>
  (sentMs + receivedMs) / 2 + windows[name].resetSeconds * 1_000;
