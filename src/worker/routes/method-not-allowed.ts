import type { Context } from "hono";
import { ApiError } from "../errors.ts";

/** A handler that answers every method of a known path that is not one of `allow` (RFC 9110, section 15.5.6). */
export function methodNotAllowed(allow: string) {
  return function methodNotAllowedHandler(c: Context): never {
    throw new ApiError(
      "method_not_allowed",
      `${c.req.raw.method} is not possible here. Use ${allow.replace(", ", " or ")}.`,
      { Allow: allow },
    );
  };
}
