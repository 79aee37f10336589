import { env } from "cloudflare:workers";
import { parseConfig } from "../rules/config.ts";
import { Limiter } from "./limiter/limiter.ts";

/** The configuration. With invalid vars, the Worker does not start. */
export const config = parseConfig(env);

/** Requests and service bindings share it, so that each knows what the other was told of a key. */
export const limiter = new Limiter(config);
