import { quotaHeaders, retryAfterSeconds } from "../../src/rules/limits/headers.ts";
import { keyPolicy, SimulatedLimiter } from "../rules/limits/simulated-limiter.ts";
import type { Draw } from "../rules/limits/traffic.ts";

/** Simulates the service behind a slow network, with the real limiter's decisions and headers. */
export class LimitedService {
  readonly limiter: SimulatedLimiter;
  readonly counts = { admitted: 0, refused: 0, banned: 0, underWay: 0, mostUnderWay: 0 };
  readonly #latencyMs: Draw;

  /** @param latencyMs returns a random delay in milliseconds for each request and each response. */
  constructor(perMinute: number, perDay: number, latencyMs: Draw) {
    this.limiter = new SimulatedLimiter(keyPolicy(perMinute, perDay));
    this.#latencyMs = latencyMs;
  }

  readonly fetch = async (): Promise<Response> => {
    const underWay = ++this.counts.underWay;
    this.counts.mostUnderWay = Math.max(this.counts.mostUnderWay, underWay);
    await this.#travel();
    const response = this.answer();
    await this.#travel();
    this.counts.underWay -= 1;
    return response;
  };

  /** Returns the response to a request that arrives now. */
  answer(): Response {
    // The service's clock is 437 ms ahead of the client's clock, so that whole seconds begin at
    // different times.
    const decision = this.limiter.at(Math.floor(performance.now()) + 437).request();
    const headers = new Headers(quotaHeaders(decision));
    if (decision.admitted) {
      this.counts.admitted += 1;
      return new Response(null, { status: 204, headers });
    }
    if (decision.banned) this.counts.banned += 1;
    this.counts.refused += 1;
    headers.set("Retry-After", String(retryAfterSeconds(decision)));
    const code = decision.banned ? "api_key_banned" : "rate_limit_exceeded";
    return Response.json({ code, message: "Wait.", status: 429 }, { status: 429, headers });
  }

  #travel(): Promise<void> {
    return new Promise((resolve) => setTimeout(resolve, this.#latencyMs()));
  }
}
