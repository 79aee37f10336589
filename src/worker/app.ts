import { type Context, Hono } from "hono";
import { ApiKeyDirectory } from "./api-keys/directory.ts";
import type { AppEnv } from "./app-env.ts";
import { type Config, REMEMBERED_KEYS } from "../rules/config.ts";
import { DatabaseQueries, DatabaseUnavailableError, logFailure } from "./db/availability.ts";
import { NearestReads } from "./db/nearest-reads.ts";
import { ApiError, writeError } from "./errors.ts";
import { authenticate } from "./middleware/authenticate.ts";
import { crossOrigin } from "./middleware/cross-origin.ts";
import { enforceLimits, type LimitException } from "./middleware/enforce-limits.ts";
import { observeRequests } from "./middleware/observe-requests.ts";
import { requireHttps } from "./middleware/require-https.ts";
import { commonHeaders, v1Headers } from "./middleware/response-headers.ts";
import { AddressBudget } from "./limiter/address-budget.ts";
import { Limiter } from "./limiter/limiter.ts";
import type { ListSizes } from "./orders/list-sizes.ts";
import { OrderLists } from "./orders/order-lists.ts";
import { healthRoute } from "./routes/health.ts";
import { listRoute } from "./routes/list-orders.ts";
import { cancelRoute } from "./routes/cancel-order.ts";
import { quotaRoute } from "./routes/quota.ts";

/** The reads that do not wait for the limiter before their handlers run. */
const LIMIT_EXCEPTIONS = new Map<string, LimitException>([
  ["/v1/store/orders", "alongside"],
  ["/v1/quota", "uncounted"],
]);

/**
 * Creates the service. A request under `/v1` needs a valid key and counts against the key's limits,
 * even if the path is unknown.
 */
export function createApp(
  config: Config,
  limiter = new Limiter(config),
  sizes: Partial<ListSizes> = {},
): Hono<AppEnv> {
  const orders = new DatabaseQueries("orders", config.databaseTimeoutMs);
  const keys = new DatabaseQueries("keys", config.databaseTimeoutMs);
  const directory = new ApiKeyDirectory(keys, REMEMBERED_KEYS);
  const reads = new NearestReads(orders, config.listReads === "nearest");
  const lists = new OrderLists(reads, sizes);
  const addresses = new AddressBudget(config.bans);

  const app = new Hono<AppEnv>()
    .use(commonHeaders)
    // Registered before `observeRequests`, so health checks by a monitor are not logged as traffic.
    .route("/healthz", healthRoute())
    .use(observeRequests(config));

  const v1 = new Hono<AppEnv>()
    .route("/store/orders", listRoute(lists))
    .route("/store/orders", cancelRoute(orders))
    .route("/quota", quotaRoute(limiter));

  return app
    .use(
      "/v1/*",
      v1Headers(addresses, config),
      requireHttps(config, directory),
      crossOrigin(config.corsOrigins),
      authenticate(directory, addresses),
      enforceLimits(limiter, LIMIT_EXCEPTIONS),
    )
    .route("/v1", v1)
    .notFound((c) =>
      writeError(c, {
        code: "not_found",
        message:
          "There is nothing at this path. Orders are at /v1/store/orders, and the reference is at /.",
      }),
    )
    .onError((error, c) => writeError(c, toApiError(error, c)));
}

function toApiError(error: Error, c: Context<AppEnv>): ApiError {
  if (error instanceof ApiError) return error;
  const requestId = c.get("requestId");
  logFailure({ event: "internal_error", requestId, error });
  if (error instanceof DatabaseUnavailableError) {
    return new ApiError(
      "service_unavailable",
      "The service cannot reach its database at the moment. Repeat the request after the time in Retry-After; a cancellation can be repeated safely.",
      { "Retry-After": "5" },
    );
  }
  return new ApiError(
    "internal_error",
    `Something went wrong on our side. Please report it with the request id ${requestId}.`,
  );
}
