import type { WindowQuota } from "../../src/client/rate-limit-headers.ts";

const WINDOWS = [
  ["minute", 60_000],
  ["day", 86_400_000],
] as const;

/** Two responses announce the same window if the announced ends differ by at most this time. */
const SAME_WINDOW_MS = 20_000;

/** A response, with Unix times in milliseconds. `code` is `null` in a successful response. */
export interface Answer {
  readonly sentMs: number;
  readonly receivedMs: number;
  readonly status: number;
  readonly code: string | null;
  readonly minute: WindowQuota;
  readonly day: WindowQuota;
  readonly retryAfterSeconds: number | null;
}

/** A key, whose requests the service counts together. */
export class Subject {
  readonly name: string;
  readonly key: string;
  readonly isWellBehaved: boolean;
  readonly answers: Answer[] = [];
  /** When requests were sent whose answer is unknown: the service may have counted them. */
  readonly unknownMs: number[] = [];

  constructor(name: string, key: string, isWellBehaved: boolean) {
    this.name = name;
    this.key = key;
    this.isWellBehaved = isWellBehaved;
  }

  get bans(): readonly Answer[] {
    return this.answers.filter(({ code }) => code === "api_key_banned");
  }

  /** Returns how the service violated docs/limits.md. */
  violations(): string[] {
    const wrong = [
      ...WINDOWS.flatMap(([name, lengthMs]) => this.#judgeWindow(name, lengthMs)),
      ...this.bans.flatMap((ban) => this.#admissionsDuring(ban)),
    ];
    if (this.isWellBehaved && this.bans.length > 0) wrong.push("a well-behaved client was banned");
    return wrong.map((what) => `${this.name}: ${what}`);
  }

  /** No window admits more than its limit, loses a count, or refuses before it is full. */
  #judgeWindow(name: "minute" | "day", lengthMs: number): string[] {
    const wrong: string[] = [];
    const windows = groupByEnd(this.answers.filter(isAdmitted), name);
    for (const admitted of windows) {
      const { limit } = admitted[0]![name];
      if (admitted.length > limit) wrong.push(`${admitted.length} of ${limit} in a ${name}`);
      const lefts = new Set(admitted.map((answer) => answer[name].remaining));
      if (lefts.size < admitted.length) wrong.push(`a count was lost in a ${name}`);
    }
    for (const refusal of this.answers) {
      if (refusal.code !== "rate_limit_exceeded" || refusal[name].remaining > 0) continue;
      const end = endOf(refusal, name);
      const window = windows.find(([one]) => Math.abs(endOf(one!, name) - end) < SAME_WINDOW_MS);
      const sinceMs = end - lengthMs - SAME_WINDOW_MS;
      const unknown = this.unknownMs.filter((sentMs) => sentMs > sinceMs);
      const most = (window?.length ?? 0) + unknown.length;
      if (most < refusal[name].limit) wrong.push(`refused after ${most} in a ${name}`);
    }
    return wrong;
  }

  /**
   * No request is admitted before the announced end of a ban. The announcement is rounded up to a
   * second, and one from an isolate's memory may be a second too long.
   */
  #admissionsDuring(ban: Answer): string[] {
    const endMs = ban.sentMs + (ban.retryAfterSeconds! - 2) * 1_000;
    return this.answers
      .filter((one) => isAdmitted(one) && one.sentMs > ban.receivedMs && one.receivedMs < endMs)
      .map(({ receivedMs }) => `admitted ${Math.ceil(endMs - receivedMs)} ms before a ban's end`);
  }
}

/** Returns whether the service admitted the request and counted it in both windows. */
function isAdmitted({ status }: Answer): boolean {
  return status !== 429 && status !== 503;
}

/** Estimates the end of a window. The error is up to 1 s plus half the request's duration. */
function endOf(answer: Answer, name: "minute" | "day"): number {
  return (answer.sentMs + answer.receivedMs) / 2 + answer[name].resetSeconds * 1_000;
}

function groupByEnd(answers: readonly Answer[], name: "minute" | "day"): Answer[][] {
  const groups: Answer[][] = [];
  let lastEnd = -Infinity;
  for (const answer of answers.toSorted((one, other) => endOf(one, name) - endOf(other, name))) {
    const end = endOf(answer, name);
    if (end - lastEnd > SAME_WINDOW_MS) groups.push([]);
    groups.at(-1)!.push(answer);
    lastEnd = end;
  }
  return groups;
}
