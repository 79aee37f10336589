import { exports } from "cloudflare:workers";
import service, { RateLimiter } from "../../../src/worker/index.ts";
import { observedBindings } from "../../support/observed-bindings.ts";

export { RateLimiter };

/** The counts since the test sent `/hold`, which makes queries for the list wait. */
export interface Held {
  readonly requests: number;
  /** The number of queries for the list that had to wait. */
  readonly queries: number;
}

/** Each waiting request polls at this interval, because requests cannot share a timer. */
const LOOK_MS = 5;

let isHeld = false;
let haveLeft = false;
let requests = 0;
let queries = 0;

const observer = {
  beforeObjectCall() {},
  async beforeQuery(database: "ORDERS" | "KEYS") {
    if (database === "KEYS") return;
    if (isHeld) queries += 1;
    while (isHeld) await scheduler.wait(LOOK_MS);
  },
  afterStatement() {},
};

/** The paths with which a test controls the service. */
const STEPS: Readonly<Record<string, () => void>> = {
  "/hold": () => {
    isHeld = true;
    haveLeft = false;
    requests = 0;
    queries = 0;
  },
  /** Aborts waiting requests that have the header `Leaves`, as if the clients disconnected. */
  "/leave": () => (haveLeft = true),
  "/go-on": () => (isHeld = false),
  "/look": () => undefined,
};

/** The service; a test decides how long database queries wait, and when clients disconnect. */
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
 * Sends a request to the service, and aborts it after `/leave`. A closed connection cancels a
 * request on Cloudflare, but not locally.
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
