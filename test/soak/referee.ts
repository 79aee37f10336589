import type { Answer } from "./answer.ts";

const WINDOWS = [
  ["minute", 60_000],
  ["day", 86_400_000],
] as const;

/** Two responses announce the same window if the announced ends differ by at most this time. */
const SAME_WINDOW_MS = 20_000;

interface Sent {
  readonly sentMs: number;
  readonly answer: Answer | null;
}

/** A key or a client address. The service counts the requests of one subject together. */
export class Subject {
  readonly name: string;
  readonly isWellBehaved: boolean;
  readonly requests: Sent[] = [];

  constructor(name: string, isWellBehaved: boolean) {
    this.name = name;
    this.isWellBehaved = isWellBehaved;
  }

  /** Records a request. If `answer` is `null`, the service may still have counted the request. */
  record(sentMs: number, answer: Answer | null): void {
    this.requests.push({ sentMs, answer });
  }

  /** Returns how the service violated docs/limits.md. */
  violations(): string[] {
    const answers = this.requests.flatMap(({ answer }) => (answer === null ? [] : [answer]));
    const bans = answers.filter(({ code }) => code === "api_key_banned");
    const wrong = WINDOWS.flatMap(([name, lengthMs]) =>
      this.#judgeWindows(answers, name, lengthMs),
    );
    if (this.isWellBehaved && bans.length > 0) wrong.push("a well-behaved client was banned");
    return [...wrong, ...admissionsDuring(bans, answers)].map((what) => `${this.name}: ${what}`);
  }

  #judgeWindows(answers: readonly Answer[], name: "minute" | "day", lengthMs: number): string[] {
    const wrong: string[] = [];
    const admitted = answers.filter(isAdmitted);
    const windows = groupByEnd(admitted, name);
    for (const inWindow of windows) {
      const limit = inWindow[0]![name].limit;
      if (inWindow.length > limit) wrong.push(`${inWindow.length} of ${limit} in a ${name}`);
      const lefts = inWindow.map((answer) => answer[name].remaining);
      if (new Set(lefts).size < lefts.length) wrong.push(`a count was lost in a ${name}`);
    }
    const refused = answers.filter(
      (answer) => answer.code === "rate_limit_exceeded" && answer[name].remaining === 0,
    );
    for (const refusal of refused) {
      const end = endOf(refusal, name);
      const known = windows.find(
        (group) => Math.abs(endOf(group[0]!, name) - end) < SAME_WINDOW_MS,
      );
      const unknown = this.requests.filter(
        ({ sentMs, answer }) =>
          (answer === null || answer.status === 503) && sentMs > end - lengthMs - SAME_WINDOW_MS,
      );
      const most = (known?.length ?? 0) + unknown.length;
      if (most < refusal[name].limit) wrong.push(`refused after ${most} in a ${name}`);
    }
    return wrong;
  }
}

/** Returns whether the service admitted the request and counted it in both windows. */
function isAdmitted({ status, code }: Answer): boolean {
  return status !== 429 && status !== 503 && code !== "internal_error";
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

/**
 * Returns a violation for each request that was admitted before the announced end of a ban. The
 * announcement is rounded up to a second, and one from an isolate's memory may be a second too long.
 */
function admissionsDuring(bans: readonly Answer[], answers: readonly Answer[]): string[] {
  return bans.flatMap((ban) => {
    const endMs = ban.sentMs + (ban.retryAfterSeconds! - 2) * 1_000;
    return answers
      .filter((answer) => isAdmitted(answer))
      .filter(({ sentMs, receivedMs }) => sentMs > ban.receivedMs && receivedMs < endMs)
      .map(({ receivedMs }) => `admitted ${Math.ceil(endMs - receivedMs)} ms before a ban's end`);
  });
}
