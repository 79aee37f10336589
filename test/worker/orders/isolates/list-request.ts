import { ListError } from "../../../../src/worker/orders/list-error.ts";
import type { ListRequest, OrderLists } from "../../../../src/worker/orders/order-lists.ts";

/** Returns a request for the list by an admitted client with this entity tag, if any. */
export function listRequest(
  database: D1Database,
  tag?: string,
  options: Partial<ListRequest> = {},
): ListRequest {
  return {
    database,
    keyId: "key",
    knownVersions: tag === "*" ? tag : tag === undefined ? [] : [tag],
    admission: Promise.resolve({ mayReadReplica: true }),
    waitUntil: (promise) => void promise.catch(() => undefined),
    ...options,
  };
}

/** Answers a request as the route does. `onEvent` receives the log event of a list that has begun. */
export async function answerOf(
  lists: OrderLists,
  request: ListRequest,
  { isHead = false, onEvent = (_event: string): void => undefined } = {},
) {
  const snapshot = (await lists.snapshot(request))!;
  const { version } = snapshot;
  const isKnown = request.knownVersions === "*" || request.knownVersions.includes(version);
  const onBroken = (error: unknown) =>
    onEvent(error instanceof ListError ? error.event : "order_list_broken");
  const body = isKnown ? null : await lists.body(snapshot, request, { isHead, onBroken });
  return { version, isKnown, body };
}
