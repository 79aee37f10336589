import { createApp } from "./app.ts";
import { keepHouse } from "./housekeeping.ts";
import { config, limiter } from "./isolate.ts";
import { inJurisdiction } from "./jurisdiction.ts";

export { ApiKeys } from "./entrypoints/api-keys.ts";
export { Orders } from "./entrypoints/orders.ts";
export { RateLimiter } from "./limiter/durable-object.ts";

const app = createApp(config, limiter);

/** The entry point of the Worker. With invalid vars, it throws before the first request. */
export default {
  fetch: (request, bindings, context) =>
    app.fetch(request, inJurisdiction(bindings, config), context),
  scheduled: ({ scheduledTime }, bindings) => keepHouse(bindings, config, new Date(scheduledTime)),
} satisfies ExportedHandler<Cloudflare.Env>;
