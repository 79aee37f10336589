import { DurableObject } from "cloudflare:workers";

interface Env {
  readonly RATE_LIMITER: DurableObjectNamespace<RateLimiter>;
}

/** A Worker that calls a Durable Object which does nothing, and returns the result. */
export default {
  async fetch(_request: Request, env: Env): Promise<Response> {
    return Response.json(await env.RATE_LIMITER.getByName("one").touch());
  },
};

export class RateLimiter extends DurableObject {
  touch(): boolean {
    return false;
  }
}
