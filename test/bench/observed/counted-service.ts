import service, { RateLimiter as Limiter } from "../../../src/index.ts";
import { observedBindings } from "./bindings.ts";

/** Operations that Cloudflare bills, counted since they were last asked for. */
export interface Operations {
  objectCalls: number;
  /** Keys written or deleted in the storage of objects, and alarms set. */
  objectRowsWritten: number;
  queries: number;
  rowsRead: number;
  rowsWritten: number;
}

const NONE = { objectCalls: 0, objectRowsWritten: 0, queries: 0, rowsRead: 0, rowsWritten: 0 };

let operations: Operations = { ...NONE };

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

/** The service with its operations counted; `/operations` answers with them and begins anew. */
export default {
  fetch(request, env, context) {
    if (new URL(request.url).pathname !== "/operations") {
      return service.fetch(request, observedBindings(env, observer), context);
    }
    const counted = operations;
    operations = { ...NONE };
    return Response.json(counted);
  },
} satisfies ExportedHandler<Cloudflare.Env>;

export class RateLimiter extends Limiter {
  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    super(ctx, env);
    const { storage } = ctx;
    countCalls(storage.kv, "put");
    countCalls(storage.kv, "delete");
    countCalls(storage, "setAlarm");
    countCalls(storage, "deleteAll");
  }
}

function countCalls<Name extends string>(
  target: Record<Name, (...args: any[]) => unknown>,
  name: Name,
): void {
  const method = target[name].bind(target);
  target[name] = (...args) => {
    operations.objectRowsWritten += 1;
    return method(...args);
  };
}
