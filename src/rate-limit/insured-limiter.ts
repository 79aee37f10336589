import { logEvent } from "../log.ts";
import type { Decision, Quota } from "./decision.ts";
import type { Limiter, Subject } from "./limiter.ts";

/** A limiter whose place another one takes for each call that fails. */
export class InsuredLimiter implements Limiter {
  readonly #limiter: Limiter;
  readonly #insurance: Limiter;

  constructor(limiter: Limiter, insurance: Limiter) {
    this.#limiter = limiter;
    this.#insurance = insurance;
  }

  admit(subject: Subject): Promise<Decision> {
    return this.#limiter.admit(subject).catch((error: unknown) => {
      logEvent({ event: "insurance_limiter", subject: subject.name, error });
      return this.#insurance.admit(subject);
    });
  }

  peek(subject: Subject): Promise<Quota> {
    return this.#limiter.peek(subject).catch((error: unknown) => {
      logEvent({ event: "insurance_limiter", subject: subject.name, error });
      return this.#insurance.peek(subject);
    });
  }

  isRefusing(subject: Subject): boolean {
    return this.#limiter.isRefusing(subject);
  }
}
