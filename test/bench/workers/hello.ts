import { DurableObject } from "cloudflare:workers";

/** The smallest possible Worker. No service can answer faster. */
export default {
  fetch: () => new Response("hello"),
};

export class RateLimiter extends DurableObject {}
