import * as z from "zod/mini";
import { BAN_MODES, type BanPolicy } from "./limits/bans.ts";

/** Which requests are logged: `errors` are those that we answer 5xx or that something was missing for. */
export const REQUEST_LOGS = ["all", "errors", "none"] as const;
export type RequestLog = (typeof REQUEST_LOGS)[number];

/** When this version of the API ends. */
export interface VersionLifecycle {
  /** Since when it is deprecated, or from when it will be. */
  readonly deprecatedAt?: Date | undefined;
  /** From when it may stop answering. */
  readonly sunsetAt?: Date | undefined;
}

/** The Worker's configuration, from the `vars` of wrangler.toml. */
export interface Config {
  /** Origins whose scripts may call the service from a browser. */
  readonly corsOrigins: ReadonlySet<string>;
  /** What the answers under `/v1` say of its end; nothing by default. */
  readonly lifecycle: VersionLifecycle;
  readonly requestLog: RequestLog;
  readonly bans: BanPolicy;
  /** For how long an API key's record is used without looking it up again. */
  readonly apiKeyFreshMs: number;
  /** For how long it is used while it is looked up again. */
  readonly apiKeyStaleMs: number;
  /** API keys that an isolate remembers. */
  readonly apiKeyCacheSize: number;
  /** How long to wait for a Durable Object before the insurance limiter takes over. */
  readonly limiterTimeoutMs: number;
  /** Refused keys that an isolate remembers. */
  readonly refusalsSize: number;
  /** Keys that an isolate's insurance limiter remembers. */
  readonly fallbackSize: number;
  /** How long to wait for the database before the answer is 503. */
  readonly databaseTimeoutMs: number;
}

const DAY_SECONDS = 86_400;

function wholeNumber(fallback: number, min: number, max: number) {
  const message = `must be a whole number from ${min} to ${max}`;
  const digits = (value: unknown) =>
    typeof value === "string" && /^\d+$/.test(value) ? Number(value) : value;
  const isInRange = (value: number) => Number.isInteger(value) && value >= min && value <= max;
  const number = z.number(message).check(z.refine(isInRange, message));
  return z.pipe(z.transform(digits), z._default(number, fallback));
}

const milliseconds = (fallback: number, max: number) => wholeNumber(fallback, 1, max);

const seconds = (fallback: number, min: number, max: number) =>
  z.pipe(
    wholeNumber(fallback, min, max),
    z.transform((value: number) => value * 1_000),
  );

const origins = z.pipe(
  z._default(z.string("must be a list of origins, separated by commas"), ""),
  z.transform((text: string, context) => {
    const listed = text
      .split(",")
      .map((origin) => origin.trim())
      .filter((origin) => origin !== "");
    for (const origin of listed) {
      if (!URL.canParse(origin) || new URL(origin).origin !== origin) {
        context.issues.push({
          code: "custom",
          message: `${origin} is not an origin such as https://app.example`,
          input: text,
        });
      }
    }
    return new Set(listed);
  }),
);

const INSTANT_EXPECTED = "must be a date-time in UTC such as 2027-01-01T00:00:00Z";

const instant = z.optional(
  z.pipe(
    z.iso.datetime(INSTANT_EXPECTED),
    z.transform((text: string) => new Date(text)),
  ),
);

const varsSchema = z
  .object({
    CORS_ORIGINS: origins,
    REQUEST_LOG: z._default(z.enum(REQUEST_LOGS, "must be all, errors or none"), "none"),
    V1_DEPRECATED_AT: instant,
    V1_SUNSET_AT: instant,
    BAN_MODE: z._default(z.enum(BAN_MODES, "must be on, log or off"), "on"),
    BAN_GRACE_SECONDS: seconds(10, 0, 60),
    BAN_STRIKE_WINDOW_SECONDS: seconds(60, 1, DAY_SECONDS),
    BAN_MIN_STRIKES: wholeNumber(60, 1, 1_000_000),
    BAN_MAX_STRIKES: wholeNumber(1_000, 1, 1_000_000),
    BAN_FIRST_SECONDS: seconds(60, 1, DAY_SECONDS),
    BAN_LONGEST_SECONDS: seconds(DAY_SECONDS, 1, 30 * DAY_SECONDS),
    BAN_FORGET_SECONDS: seconds(DAY_SECONDS, 1, 30 * DAY_SECONDS),
    API_KEY_FRESH_SECONDS: seconds(10, 1, 25),
    API_KEY_STALE_SECONDS: seconds(25, 1, 25),
    API_KEY_CACHE_SIZE: wholeNumber(10_000, 1, 100_000),
    LIMITER_TIMEOUT_MS: milliseconds(5_000, 30_000),
    REFUSALS_SIZE: wholeNumber(10_000, 1, 100_000),
    INSURANCE_SIZE: wholeNumber(10_000, 1, 100_000),
    DATABASE_TIMEOUT_MS: milliseconds(10_000, 30_000),
  })
  .check(
    z.refine((vars) => vars.BAN_MIN_STRIKES <= vars.BAN_MAX_STRIKES, {
      message: "BAN_MIN_STRIKES must not exceed BAN_MAX_STRIKES",
    }),
    z.refine((vars) => vars.BAN_FIRST_SECONDS <= vars.BAN_LONGEST_SECONDS, {
      message: "BAN_FIRST_SECONDS must not exceed BAN_LONGEST_SECONDS",
    }),
    z.refine((vars) => vars.API_KEY_FRESH_SECONDS <= vars.API_KEY_STALE_SECONDS, {
      message: "API_KEY_FRESH_SECONDS must not exceed API_KEY_STALE_SECONDS",
    }),
    // RFC 9745, section 4.
    z.refine(
      ({ V1_DEPRECATED_AT: deprecated, V1_SUNSET_AT: sunset }) =>
        deprecated === undefined || sunset === undefined || deprecated <= sunset,
      { message: "V1_SUNSET_AT must not be earlier than V1_DEPRECATED_AT" },
    ),
  );

/**
 * Reads the configuration from the Worker's environment; bindings in it are passed over.
 *
 * @throws {Error} that names every var which has a wrong value.
 */
export function parseConfig(env: unknown): Config {
  const parsed = varsSchema.safeParse(env);
  if (!parsed.success) {
    const faults = parsed.error.issues.map(({ path, message }) => [...path, message].join(": "));
    throw new Error(`Invalid vars: ${faults.join("; ")}`);
  }
  const vars = parsed.data;
  return {
    corsOrigins: vars.CORS_ORIGINS,
    lifecycle: { deprecatedAt: vars.V1_DEPRECATED_AT, sunsetAt: vars.V1_SUNSET_AT },
    requestLog: vars.REQUEST_LOG,
    bans: {
      mode: vars.BAN_MODE,
      graceMs: vars.BAN_GRACE_SECONDS,
      strikeWindowMs: vars.BAN_STRIKE_WINDOW_SECONDS,
      minStrikes: vars.BAN_MIN_STRIKES,
      maxStrikes: vars.BAN_MAX_STRIKES,
      firstBanMs: vars.BAN_FIRST_SECONDS,
      longestBanMs: vars.BAN_LONGEST_SECONDS,
      forgetAfterMs: vars.BAN_FORGET_SECONDS,
    },
    apiKeyFreshMs: vars.API_KEY_FRESH_SECONDS,
    apiKeyStaleMs: vars.API_KEY_STALE_SECONDS,
    apiKeyCacheSize: vars.API_KEY_CACHE_SIZE,
    limiterTimeoutMs: vars.LIMITER_TIMEOUT_MS,
    refusalsSize: vars.REFUSALS_SIZE,
    fallbackSize: vars.INSURANCE_SIZE,
    databaseTimeoutMs: vars.DATABASE_TIMEOUT_MS,
  };
}
