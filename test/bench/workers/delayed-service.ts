import service, { RateLimiter } from "../../../src/worker/index.ts";

export { RateLimiter };

/** The delay before each query of the orders database in milliseconds. */
let delayMs = 0;

/** The service with a delay before each query of orders. `PUT /delay` sets the delay. */
export default {
  async fetch(request, env, context) {
    if (new URL(request.url).pathname === "/delay") {
      delayMs = Number(await request.text());
      return new Response(null, { status: 204 });
    }
    return service.fetch(request, { ...env, ORDERS: delayed(env.ORDERS) }, context);
  },
} satisfies ExportedHandler<Cloudflare.Env>;

function delayed(database: D1Database): D1Database {
  return new Proxy(database, {
    get(target, name: keyof D1Database) {
      if (name === "prepare") return (sql: string) => statement(target.prepare(sql));
      const method = target[name] as (...args: unknown[]) => unknown;
      return async (...args: unknown[]) => {
        await scheduler.wait(delayMs);
        return method.apply(target, args);
      };
    },
  });
}

/** Delays the execution of a statement outside a batch, in which the batch itself is delayed. */
function statement(prepared: D1PreparedStatement): D1PreparedStatement {
  const own = { bind: (...values: unknown[]) => statement(prepared.bind(...values)) };
  for (const name of ["all", "run", "first", "raw"] as const) {
    const method = prepared[name] as (...args: unknown[]) => Promise<unknown>;
    Object.assign(own, {
      [name]: async (...args: unknown[]) => {
        await scheduler.wait(delayMs);
        return method.apply(prepared, args);
      },
    });
  }
  // D1's own `batch` reads the fields of a statement.
  return Object.setPrototypeOf(own, prepared) as D1PreparedStatement;
}
