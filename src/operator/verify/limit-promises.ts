import { PLAN_LIMITS } from "../../worker/limit-rules/plans.ts";
import type { Answer } from "./caller.ts";
import {
  callWithKey,
  expectAnswer,
  expectThat,
  LIST,
  type ServicePromise,
  type Trial,
  Untried,
} from "./service-promise.ts";

/** The number of simultaneous requests that are sent to use up a key's limit per minute. */
const CROWD = 200;
/** `If-None-Match: *` returns 304 without a body, so even a long list costs little. */
const UNCHANGED = { "If-None-Match": "*" };

/** Promises whose checks use up the key's limit per minute (docs/limits.md). */
export const CROWD_PROMISES: readonly ServicePromise[] = [
  {
    title: `Of ${CROWD} simultaneous requests, exactly as many are admitted as the minute has room for`,
    needs: ["limit", "key"],
    test: async (trial) => {
      const requests = Array.from({ length: CROWD }, () =>
        callWithKey(trial, LIST, { headers: UNCHANGED }),
      );
      trial.seen.crowd = await Promise.all(requests);
      expectExactness(trial.seen.crowd);
    },
  },
  {
    title: "A refused request returns 429 with Retry-After, and counts in no window",
    needs: ["limit", "key"],
    test: async (trial) => {
      for (const refusal of refusalsIn(trial)) expectRefusal(refusal);
    },
  },
];

/**
 * The promise about the end of a full window. Between `CROWD_PROMISES` and this promise, try only
 * promises whose requests have no key: the service refuses all requests with the key.
 */
export const ADMISSION_PROMISE: ServicePromise = {
  title: "A client that waits for Retry-After is admitted",
  needs: ["limit", "key"],
  test: async (trial) => {
    const { clock, signal } = trial;
    const refusals = refusalsIn(trial);
    const ends = refusals.map(
      ({ receivedMs, headers }) => receivedMs + Number(headers.get("Retry-After")) * 1_000,
    );
    await clock.wait(Math.max(...ends) - clock.now(), signal);
    expectAnswer(await callWithKey(trial, LIST, { headers: UNCHANGED }), { status: 304 });
  },
};

function refusalsIn({ seen }: Trial): readonly Answer[] {
  const refusals = seen.crowd.filter(({ status }) => status === 429);
  if (refusals.length === 0) throw new Untried("no request was refused");
  return refusals;
}

function expectExactness(answers: readonly Answer[]): void {
  const { perMinute } = PLAN_LIMITS.free;
  const admitted = answers.filter(({ status }) => status !== 429);
  for (const answer of answers.slice(-1)) {
    const found = `${admitted.length} are admitted, not ${perMinute}`;
    expectThat(answer, admitted.length === perMinute, found);
  }
  const left = admitted.map(({ quota }) => quota?.minute.remaining);
  for (const [index, answer] of admitted.entries()) {
    expectAnswer(answer, { status: 304 });
    const isFirst = left.indexOf(left[index]) === index;
    expectThat(answer, isFirst, "two admitted requests have the same X-RateLimit-Remaining");
    const { limit } = answer.quota?.minute ?? {};
    expectThat(answer, limit === perMinute, `the limit is ${limit}, not ${perMinute}`);
  }
}

function expectRefusal(answer: Answer): void {
  const { minute, day } = answer.quota ?? {};
  const refusedBy = [minute, day].filter((window) => window?.remaining === 0);
  const seconds = Math.max(...refusedBy.map((window) => window?.seconds ?? 0));
  const headers = { "X-RateLimit-Remaining": "0", "Retry-After": String(seconds) };
  expectAnswer(answer, { status: 429, code: "rate_limit_exceeded", headers });
  // The key is new and has used up one minute window, so its day window must count exactly the limit
  // per minute.
  const { perMinute, perDay } = PLAN_LIMITS.free;
  const counted = perDay - (day?.remaining ?? NaN);
  expectThat(answer, counted === perMinute, `the day has counted ${counted}, not ${perMinute}`);
}
