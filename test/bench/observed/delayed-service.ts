import service, { RateLimiter } from "../../../src/worker/index.ts";
import { observedBindings } from "./bindings.ts";

export { RateLimiter };

/** The delays before each call of the bindings, in milliseconds. */
export interface Delays {
  readonly object: number;
  readonly orders: number;
  readonly keys: number;
  /** The delay of the nearest replica of the orders database. */
  readonly replica: number;
}

let delays: Delays = { object: 0, orders: 0, keys: 0, replica: 0 };

/** The first result of each query. The simulated replica repeats this result, as if it lagged. */
const replicaResults = new Map<string, D1Result>();

const observer = {
  beforeObjectCall: () => scheduler.wait(delays.object),
  beforeQuery: (database: "ORDERS" | "KEYS") =>
    scheduler.wait(database === "ORDERS" ? delays.orders : delays.keys),
  afterStatement() {},
};

/** The service with a delay before each call of a binding. `PUT /delays` sets the delays. */
export default {
  async fetch(request, env, context) {
    if (new URL(request.url).pathname !== "/delays") {
      const bindings = observedBindings(env, observer);
      Object.assign(bindings.ORDERS, { withSession: () => replicaOf(env.ORDERS) });
      return service.fetch(request, bindings, context);
    }
    delays = await request.json();
    if (delays.replica === 0) replicaResults.clear();
    return new Response(null, { status: 204 });
  },
} satisfies ExportedHandler<Cloudflare.Env>;

/** Returns a session of the replica, with only the methods that the service uses. */
function replicaOf(database: D1Database) {
  const all = async (sql: string, values: unknown[]) => {
    await scheduler.wait(delays.replica);
    const query = JSON.stringify([sql, values]);
    const known = replicaResults.get(query);
    if (known !== undefined) return known;
    const result = await database
      .prepare(sql)
      .bind(...values)
      .all();
    replicaResults.set(query, result);
    return result;
  };
  return {
    prepare: (sql: string) => ({
      bind: (...values: unknown[]) => ({ all: () => all(sql, values) }),
    }),
  };
}
