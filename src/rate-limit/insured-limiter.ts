import type { Outage } from "../outage.ts";
import type { Decision, Quota } from "./decision.ts";
import { keyIdOf, type Limiter, type Subject } from "./limiter.ts";

/** The limiter of one request, whose place another one takes for each call that fails. */
export class InsuredLimiter implements Limiter {
  readonly #limiter: Limiter;
  readonly #insurance: Limiter;
  readonly #outage: Outage;
  readonly #requestId: string;
  #isInsured = false;

  /** @param outage is told when the limiter fails and when it answers again. */
  constructor(limiter: Limiter, insurance: Limiter, outage: Outage, requestId: string) {
    this.#limiter = limiter;
    this.#insurance = insurance;
    this.#outage = outage;
    this.#requestId = requestId;
  }

  /** Whether the insurance has answered for this request. */
  get isInsured(): boolean {
    return this.#isInsured;
  }

  admit(subject: Subject): Promise<Decision> {
    return this.#limiter.admit(subject).then(
      (decision) => {
        // A refusal may come from the isolate's memory.
        if (decision.admitted) this.#outage.answered();
        return decision;
      },
      (error: unknown) => {
        this.#fail(subject, error);
        return this.#insurance.admit(subject);
      },
    );
  }

  peek(subject: Subject): Promise<Quota> {
    return this.#limiter.peek(subject).catch((error: unknown) => {
      this.#fail(subject, error);
      return this.#insurance.peek(subject);
    });
  }

  isRefusing(subject: Subject): boolean {
    return this.#limiter.isRefusing(subject);
  }

  #fail(subject: Subject, error: unknown): void {
    this.#isInsured = true;
    this.#outage.failed({ requestId: this.#requestId, keyId: keyIdOf(subject.name), error });
  }
}
