import { env } from "cloudflare:workers";
import { createApp } from "./app.ts";
import { parseConfig } from "./config.ts";

export { RateLimiter } from "./rate-limit/durable-object.ts";

export default createApp(parseConfig(env));
