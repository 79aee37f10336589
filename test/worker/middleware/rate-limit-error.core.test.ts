import { describe, expect, test } from "vitest";
import { rateLimitError } from "../../../src/worker/middleware/rate-limit-error.ts";
import { keyPolicy, SimulatedLimiter } from "../limit-rules/simulated-limiter.ts";

describe("the 429 (docs/api.md, Errors)", () => {
  test("of a full window states the time to wait", () => {
    const limiter = new SimulatedLimiter(keyPolicy(60, 1_000));
    limiter.requests(60);
    const error = rateLimitError(limiter.at(28_500).request(), "The minute is full.");
    expect(error.code).toBe("rate_limit_exceeded");
    expect(error.headers).toEqual({ "Retry-After": "32" });
    expect(error.message).toBe("The minute is full. Wait 32 seconds before the next request.");
  });

  test("with a wait of one second uses the singular", () => {
    const limiter = new SimulatedLimiter(keyPolicy(1, 1_000));
    limiter.request();
    const error = rateLimitError(limiter.at(59_999).request(), "Full.");
    expect(error.headers).toEqual({ "Retry-After": "1" });
    expect(error.message).toBe("Full. Wait 1 second before the next request.");
  });

  test("of a banned key has its own code, and its Retry-After ends with the ban", () => {
    const limiter = new SimulatedLimiter(keyPolicy(60, 1_000));
    limiter.requests(61);
    const last = limiter.advance(10_000).requests(60).at(-1);
    const error = rateLimitError(last!, "Banned.");
    expect(error.code).toBe("api_key_banned");
    expect(error.headers).toEqual({ "Retry-After": "60" });
  });
});
