import { exports } from "cloudflare:workers";
import service, { RateLimiter } from "../../../src/worker/index.ts";
import { observedBindings } from "../../bench/observed/bindings.ts";

export { RateLimiter };

/** Counts of what a held service has received. */
export interface Held {
  /** Requests of the API. */
  readonly requests: number;
  /** Queries that wait for the end of the hold. */
  readonly queries: number;
}

/** How often a waiting request looks whether it may go on: requests share no timers. */
const LOOK_MS = 5;

let isHeld = false;
let haveLeft = false;
let requests = 0;
let queries = 0;

const observer = {
  beforeObjectCall() {},
  async beforeQuery() {
    if (isHeld) queries += 1;
    while (isHeld) await scheduler.wait(LOOK_MS);
  },
  afterStatement() {},
};

/** The steps of a test, by path. */
const STEPS: Readonly<Record<string, () => void>> = {
  /** Holds every query from now on. */
  "/hold": () => {
    isHeld = true;
    haveLeft = false;
    requests = 0;
    queries = 0;
  },
  /** Lets the clients with `Leaves` disconnect. */
  "/leave": () => (haveLeft = true),
  "/go-on": () => (isHeld = false),
  "/look": () => undefined,
};

/**
 * The service with queries that a test holds, and clients that disconnect when the test says so.
 */
export default {
  async fetch(request, env, context) {
    const step = STEPS[new URL(request.url).pathname];
    if (step !== undefined) {
      step();
      return Response.json({ requests, queries } satisfies Held);
    }
    if (request.headers.has("Leaves")) return leave(request);
    requests += 1;
    return service.fetch(request, observedBindings(env, observer), context);
  },
} satisfies ExportedHandler<Cloudflare.Env>;

/**
 * Sends a request to the service and disconnects. That ends the request as on Cloudflare; locally,
 * a client that closes its connection does not.
 */
async function leave(request: Request): Promise<Response> {
  const headers = new Headers(request.headers);
  headers.delete("Leaves");
  const client = new AbortController();
  const answer = exports.default
    .fetch(request.url, { headers, signal: client.signal })
    .catch(() => new Response("left", { status: 499 }));
  while (!haveLeft) await scheduler.wait(LOOK_MS);
  client.abort();
  return answer;
}
