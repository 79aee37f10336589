import { DurableObject } from "cloudflare:workers";

interface Env {
  readonly RATE_LIMITER: DurableObjectNamespace<RateLimiter>;
}

/** One call of an object that does nothing, and an answer. */
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
