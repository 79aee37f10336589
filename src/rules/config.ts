import * as z from "zod/mini";
import { DAY_SECONDS } from "./days.ts";
import { BAN_MODES, type BanPolicy } from "./limits/bans.ts";

/** Where Cloudflare can keep both databases and Durable Objects. */
export const JURISDICTIONS = ["eu", "fedramp", "us"] as const;

/** The number of keys that each cache of an isolate remembers. */
export const REMEMBERED_KEYS = 10_000;

function wholeNumber(min: number, max: number) {
  const message = `must be a whole number from ${min} to ${max}`;
  const isInRange = (value: number) => Number.isInteger(value) && value >= min && value <= max;
  return z.pipe(
    z.transform((value) =>
      typeof value === "string" && /^\d+$/.test(value) ? Number(value) : value,
    ),
    z.number(message).check(z.refine(isInRange, message)),
  );
}

const origins = z.pipe(
  z._default(z.string("must be a list of origins, separated by commas"), ""),
  z.transform((text: string, context) => {
    const listed = text
      .split(",")
      .map((origin) => origin.trim())
      .filter((origin) => origin !== "");
    for (const [index, origin] of listed.entries()) {
      if (!URL.canParse(origin) || new URL(origin).origin !== origin) {
        context.issues.push({
          code: "custom",
          message: `entry ${index + 1} is not an origin such as https://app.example`,
          input: text,
        });
      }
    }
    return new Set(listed);
  }),
);

const instant = z.optional(
  z.pipe(
    z.iso.datetime("must be a date-time in UTC such as 2027-01-01T00:00:00Z"),
    z.transform((text: string) => new Date(text)),
  ),
);

/** The Worker's vars, with their defaults and ranges (docs/operating.md, Configuration). */
const varsSchema = z
  .object({
    /** Origins whose scripts may call the service from a browser. */
    CORS_ORIGINS: origins,
    /** `true`: also serves plain HTTP, because something before the service ends TLS. */
    ALLOW_HTTP: z._default(
      z.pipe(z.transform(String), z.enum(["true", "false"], "must be true or false")),
      "false",
    ),
    /** What the databases and the limiters of an environment never leave. */
    JURISDICTION: z.optional(z.enum(JURISDICTIONS, "must be eu, fedramp or us")),
    /** The requests to log. `errors`: with a 5xx response, or decided by the fallback limiter. */
    REQUEST_LOG: z._default(
      z.enum(["all", "errors", "none"], "must be all, errors or none"),
      "none",
    ),
    /** The database that lists are read from: the primary one or the nearest replica. */
    LIST_READS: z._default(z.enum(["primary", "nearest"], "must be primary or nearest"), "primary"),
    V1_DEPRECATED_AT: instant,
    V1_SUNSET_AT: instant,
    BAN_MODE: z._default(z.enum(BAN_MODES, "must be on, log or off"), "on"),
    BAN_GRACE_SECONDS: z._default(wholeNumber(0, 60), 10),
    BAN_STRIKE_WINDOW_SECONDS: z._default(wholeNumber(1, DAY_SECONDS), 60),
    BAN_MIN_STRIKES: z._default(wholeNumber(1, 1_000_000), 60),
    BAN_MAX_STRIKES: z._default(wholeNumber(1, 1_000_000), 1_000),
    BAN_FIRST_SECONDS: z._default(wholeNumber(1, DAY_SECONDS), 60),
    /** Beyond 24 days, `Retry-After` overflows the timers of common clients. */
    BAN_LONGEST_SECONDS: z._default(wholeNumber(1, 24 * DAY_SECONDS), DAY_SECONDS),
    BAN_FORGET_SECONDS: z._default(wholeNumber(1, 30 * DAY_SECONDS), DAY_SECONDS),
    /** The fallback limiter decides if the key's Durable Object does not respond within this time. */
    LIMITER_TIMEOUT_MS: z._default(wholeNumber(1, 30_000), 5_000),
    /** A request whose database query takes longer than this receives a 503. */
    DATABASE_TIMEOUT_MS: z._default(wholeNumber(1, 30_000), 10_000),
    /** Housekeeping deletes an order this many days after its cancellation; if undefined, never. */
    CANCELLED_ORDER_DAYS: z.optional(wholeNumber(1, 36_500)),
  })
  .check(
    z.refine((vars) => vars.BAN_MIN_STRIKES <= vars.BAN_MAX_STRIKES, {
      message: "BAN_MIN_STRIKES must not exceed BAN_MAX_STRIKES",
    }),
    z.refine((vars) => vars.BAN_FIRST_SECONDS <= vars.BAN_LONGEST_SECONDS, {
      message: "BAN_FIRST_SECONDS must not exceed BAN_LONGEST_SECONDS",
    }),
    // RFC 9745, section 4, requires that the sunset is not earlier than the deprecation.
    z.refine(
      ({ V1_DEPRECATED_AT: deprecated, V1_SUNSET_AT: sunset }) =>
        deprecated === undefined || sunset === undefined || deprecated <= sunset,
      { message: "V1_SUNSET_AT must not be earlier than V1_DEPRECATED_AT" },
    ),
  );

/** The names of all vars. */
export const VAR_NAMES: readonly string[] = Object.keys(varsSchema.shape);

/**
 * Reads the configuration from the `vars` in the Worker's environment; the bindings are ignored.
 *
 * @throws {Error} if a var is invalid; the message names every invalid var.
 */
export function parseConfig(env: unknown) {
  const parsed = varsSchema.safeParse(env);
  if (!parsed.success) {
    const faults = parsed.error.issues.map(({ path, message }) => [...path, message].join(": "));
    throw new Error(`Invalid vars: ${faults.join("; ")}`);
  }
  const vars = parsed.data;
  const bans: BanPolicy = {
    mode: vars.BAN_MODE,
    graceMs: 1_000 * vars.BAN_GRACE_SECONDS,
    strikeWindowMs: 1_000 * vars.BAN_STRIKE_WINDOW_SECONDS,
    minStrikes: vars.BAN_MIN_STRIKES,
    maxStrikes: vars.BAN_MAX_STRIKES,
    firstBanMs: 1_000 * vars.BAN_FIRST_SECONDS,
    longestBanMs: 1_000 * vars.BAN_LONGEST_SECONDS,
    forgetAfterMs: 1_000 * vars.BAN_FORGET_SECONDS,
  };
  return {
    corsOrigins: vars.CORS_ORIGINS,
    allowsHttp: vars.ALLOW_HTTP === "true",
    jurisdiction: vars.JURISDICTION,
    lifecycle: { deprecatedAt: vars.V1_DEPRECATED_AT, sunsetAt: vars.V1_SUNSET_AT },
    requestLog: vars.REQUEST_LOG,
    listReads: vars.LIST_READS,
    bans,
    limiterTimeoutMs: vars.LIMITER_TIMEOUT_MS,
    databaseTimeoutMs: vars.DATABASE_TIMEOUT_MS,
    cancelledOrderDays: vars.CANCELLED_ORDER_DAYS,
  };
}

export type Config = ReturnType<typeof parseConfig>;
