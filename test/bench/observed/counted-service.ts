import service, { RateLimiter as Limiter } from "../../../src/worker/index.ts";
import { NO_OPERATIONS } from "../../worker/operations/operations.ts";
import { observedBindings } from "./bindings.ts";

/** The operations that Cloudflare bills, counted since the last request for `/operations`. */
let operations = { ...NO_OPERATIONS };

const observer = {
  beforeObjectCall() {
    operations.objectCalls += 1;
  },
  beforeQuery() {
    operations.queries += 1;
  },
  afterStatement(meta: D1Meta) {
    operations.rowsRead += meta.rows_read;
    operations.rowsWritten += meta.rows_written;
  },
};

/** The service with counted operations. `/operations` returns the counts and sets them to 0. */
export default {
  fetch(request, env, context) {
    if (new URL(request.url).pathname !== "/operations") {
      return service.fetch(request, observedBindings(env, observer), context);
    }
    const counted = operations;
    operations = { ...NO_OPERATIONS };
    return Response.json(counted);
  },
} satisfies ExportedHandler<Cloudflare.Env>;

export class RateLimiter extends Limiter {
  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    super(ctx, observedBindings(env, observer));
    const { storage } = ctx;
    const countRow = () => void (operations.objectRowsWritten += 1);
    before(storage.kv, "put", countRow);
    before(storage.kv, "delete", countRow);
    before(storage, "put", countRow);
    before(storage, "delete", countRow);
    before(storage, "setAlarm", countRow);
    before(storage, "deleteAll", countRow);
    before(storage.sql, "exec", () => {
      throw new Error("Rows written by SQL are not counted.");
    });
  }

  override alarm(): Promise<void> {
    operations.objectCalls += 1;
    return super.alarm();
  }
}

function before<Name extends string>(
  target: Record<Name, (...args: any[]) => unknown>,
  name: Name,
  count: () => void,
): void {
  const method = target[name].bind(target);
  target[name] = (...args) => {
    count();
    return method(...args);
  };
}
