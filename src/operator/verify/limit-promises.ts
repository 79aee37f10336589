import { PLAN_LIMITS } from "../../worker/limit-rules/plans.ts";
import type { Answer } from "./caller.ts";
import {
  callWithKey,
  expectAnswer,
  expectHeader,
  expectThat,
  LIST,
  type ServicePromise,
  type Trial,
  Untried,
} from "./service-promise.ts";

/** The number of simultaneous requests that are sent to use up a key's limit per minute. */
const CROWD = 200;
/** The longest time that all `CROWD` requests together are expected to take. */
const CROWD_SECONDS = 10;
/** `If-None-Match: *` returns 304 without a body, so even a long list costs little. */
const UNCHANGED = { "If-None-Match": "*" };

/** Promises whose checks use up the key's limit per minute (docs/limits.md). */
export const CROWD_PROMISES: readonly ServicePromise[] = [
  {
    title: `Of ${CROWD} simultaneous requests, exactly as many are admitted as the minute has room for`,
    needs: ["limit", "key"],
    test: async (trial) => {
      if (!trial.isKeyNew) await prepareUsedKey(trial);
      const requests = Array.from({ length: CROWD }, () =>
        callWithKey(trial, LIST, { headers: UNCHANGED }),
      );
      trial.seen.crowd = await Promise.all(requests);
      expectExactness(trial.seen.crowd, trial.isKeyNew);
    },
  },
  {
    title: "A refused request returns 429 with Retry-After, and counts in no window",
    needs: ["limit", "key"],
    test: async (trial) => {
      const refusals = refusalsIn(trial);
      for (const refusal of refusals) {
        expectRefusal(refusal);
        // Another client may use a key that the operator passed in, so the number of requests in
        // its day window is unknown.
        if (trial.isKeyNew) expectUncounted(refusal);
      }
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
    expectAnswer(await callWithKey(trial, LIST, { headers: UNCHANGED }), 304);
  },
};

function refusalsIn({ seen }: Trial): readonly Answer[] {
  const refusals = seen.crowd.filter(({ status }) => status === 429);
  if (refusals.length === 0) throw new Untried("no request was refused");
  return refusals;
}

/**
 * Waits for a new minute window if the present one is about to end, so that all `CROWD` requests
 * fall into one window. Needed only for a key that the operator passed in.
 *
 * @throws {Untried} if `CROWD` requests cannot use up the key's limit per minute.
 */
async function prepareUsedKey(trial: Trial): Promise<void> {
  const answer = await callWithKey(trial, LIST, { headers: UNCHANGED });
  const { limit = 0, seconds = 0 } = answer.quota?.minute ?? {};
  if (limit >= CROWD) {
    throw new Untried(`the key may send ${limit} requests a minute, so a Free key is needed`);
  }
  if (seconds <= CROWD_SECONDS) await trial.clock.wait(seconds * 1_000, trial.signal);
}

function expectExactness(answers: readonly Answer[], isKeyNew: boolean): void {
  const admitted = answers.filter(({ status }) => status !== 429);
  for (const answer of admitted) expectAnswer(answer, 304);
  const left = admitted.map(({ quota }) => quota?.minute.remaining ?? NaN);
  const room = isKeyNew ? PLAN_LIMITS.free.perMinute : Math.max(-1, ...left) + 1;
  const found = `${admitted.length} are admitted, not ${room}`;
  for (const answer of answers.slice(-1)) expectThat(answer, admitted.length === room, found);
  for (const [index, answer] of admitted.entries()) {
    const isFirst = left.indexOf(left[index] ?? NaN) === index;
    expectThat(answer, isFirst, "two admitted requests have the same X-RateLimit-Remaining");
    const { limit = NaN } = answer.quota?.minute ?? {};
    expectThat(answer, !isKeyNew || limit === room, `the limit is ${limit}, not ${room}`);
  }
}

/**
 * Expects that the refused request of a new key counted in no window. The key has used up one
 * minute window and sent nothing else, so its day window must count exactly the limit per minute.
 */
function expectUncounted(answer: Answer): void {
  const { perMinute, perDay } = PLAN_LIMITS.free;
  const counted = perDay - (answer.quota?.day.remaining ?? NaN);
  expectThat(answer, counted === perMinute, `the day has counted ${counted}, not ${perMinute}`);
}

function expectRefusal(answer: Answer): void {
  expectAnswer(answer, 429, "rate_limit_exceeded");
  const { minute, day, remaining } = answer.quota ?? {};
  expectThat(answer, remaining === 0, `X-RateLimit-Remaining is ${remaining}, not 0`);
  const refusedBy = [minute, day].filter((window) => window?.remaining === 0);
  const seconds = Math.max(...refusedBy.map((window) => window?.seconds ?? 0));
  expectHeader(answer, "Retry-After", String(seconds));
}
