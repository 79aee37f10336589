import { createMiddleware } from "hono/factory";
import type { AppEnv } from "../app-env.ts";
import { writeError } from "../errors.ts";
import { type Decision, decisiveWindow } from "./decision.ts";
import { rateLimitError } from "./rate-limit-error.ts";

/** Counts an authenticated request against its key, and refuses it where a window is full or the key is banned. */
export const enforceLimits = createMiddleware<AppEnv>(
  async function enforceLimitsMiddleware(c, next) {
    const decision = await c.get("limiter").admit(c.get("subject"));
    c.set("quota", decision);
    if (decision.admitted) return next();
    return writeError(c, rateLimitError(decision, refusalReason(decision)));
  },
);

function refusalReason(decision: Decision): string {
  if (decision.banned) {
    return "This API key is banned for a while, because it kept sending requests after it was told to wait.";
  }
  const name = decisiveWindow(decision);
  return `This API key has used its ${decision[name].limit} requests per ${name}.`;
}
