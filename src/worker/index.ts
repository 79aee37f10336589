import { env } from "cloudflare:workers";
import { createApp } from "./app.ts";
import { parseConfig } from "./config.ts";

export { RateLimiter } from "./rate-limit/durable-object.ts";

/** The entry of the Worker. Wrong vars make it fail here, before the first request. */
export default createApp(parseConfig(env));
