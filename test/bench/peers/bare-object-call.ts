import { DurableObject } from "cloudflare:workers";

interface Env {
  readonly RATE_LIMITER: DurableObjectNamespace<RateLimiter>;
}

/** Calls an object that does nothing, and answers. */
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
