import type { ListRequest } from "../../../../src/worker/orders/order-lists.ts";

/** Returns a request for the list by an admitted client with this entity tag, if any. */
export function listRequest(
  database: D1Database,
  tag?: string,
  options: Partial<ListRequest> = {},
): ListRequest {
  const ifNoneMatch = tag === undefined || tag === "*" ? tag : [{ value: tag, isWeak: false }];
  return {
    database,
    keyId: "key",
    preconditions: { ifMatch: null, ifNoneMatch: ifNoneMatch ?? null },
    isHead: false,
    admission: Promise.resolve({ mayReadReplica: true }),
    log: () => undefined,
    waitUntil: (promise) => void promise.catch(() => undefined),
    ...options,
  };
}
