import { env } from "cloudflare:workers";
import { createApp } from "./app.ts";
import { parseConfig } from "../rules/config.ts";
import { keepHouse } from "./housekeeping.ts";

export { ApiKeys } from "./entrypoints/api-keys.ts";
export { Orders } from "./entrypoints/orders.ts";
export { RateLimiter } from "./limiter/durable-object.ts";

const config = parseConfig(env);

/** The entry point of the Worker. With invalid vars, it throws before the first request. */
export default {
  fetch: createApp(config).fetch,
  scheduled: ({ scheduledTime }, bindings) => keepHouse(bindings, config, new Date(scheduledTime)),
} satisfies ExportedHandler<Cloudflare.Env>;
