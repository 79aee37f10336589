import service, { RateLimiter as Limiter } from "../../../src/worker/index.ts";

const CALL_MS = 5;

export default service;

/** A Durable Object that takes 5 ms for each call of `admit`, one call at a time. */
export class RateLimiter extends Limiter {
  #free: Promise<void> = Promise.resolve();

  override async admit(...args: [any, any?, any?, any?, any?]): Promise<any> {
    this.#free = this.#free.then(() => scheduler.wait(CALL_MS));
    await this.#free;
    return super.admit(...(args as unknown as Parameters<Limiter["admit"]>));
  }
}
