import {
  callWithKey,
  expectAnswer,
  expectThat,
  LIST,
  needsKey,
  type ServicePromise,
} from "./trial.ts";

/** The time within which a revocation takes effect (docs/api.md, Authentication). */
const EFFECTIVE_MS = 30_000;
const PAUSE_MS = 1_000;

/** The promise about revocation. Must be tried last, because trying it makes the key unusable. */
export const REVOCATION_PROMISE: ServicePromise = {
  title: "A revoked key stops working within 30 seconds, also while it is used",
  obstacle: (trial) =>
    trial.revoke === null ? "cannot revoke the key: name its store with --env" : needsKey(trial),
  test: async (trial) => {
    const { clock, signal, revoke } = trial;
    await revoke?.();
    const endMs = clock.now() + EFFECTIVE_MS;
    for (;;) {
      const isLate = clock.now() >= endMs;
      const answer = await callWithKey(trial, LIST, { headers: { "If-None-Match": "*" } });
      if (answer.status === 401) return expectAnswer(answer, 401, "unauthorized");
      expectThat(
        answer,
        !isLate,
        `a request with the key returns ${answer.status} after 30 seconds`,
      );
      await clock.wait(Math.min(PAUSE_MS, endMs - clock.now()), signal);
    }
  },
};
