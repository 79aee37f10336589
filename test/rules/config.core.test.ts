import { expect, test } from "vitest";
import { type Config, parseConfig } from "../../src/rules/config.ts";
import { DEFAULT_BANS } from "./limits/simulated-limiter.ts";

const DEFAULTS: Config = {
  corsOrigins: new Set(),
  allowsHttp: false,
  jurisdiction: undefined,
  lifecycle: { deprecatedAt: undefined, sunsetAt: undefined },
  requestLog: "none",
  listReads: "primary",
  bans: DEFAULT_BANS,
  limiterTimeoutMs: 5_000,
  databaseTimeoutMs: 10_000,
  cancelledOrderDays: undefined,
};

/** Returns the field in the unit of the var. */
type Field = (config: Config) => number | undefined;

test.for<[name: string, min: number, max: number, field: Field]>([
  ["BAN_GRACE_SECONDS", 0, 60, ({ bans }) => bans.graceMs / 1_000],
  ["BAN_STRIKE_WINDOW_SECONDS", 1, 86_400, ({ bans }) => bans.strikeWindowMs / 1_000],
  ["BAN_MIN_STRIKES", 1, 1_000_000, ({ bans }) => bans.minStrikes],
  ["BAN_MAX_STRIKES", 1, 1_000_000, ({ bans }) => bans.maxStrikes],
  ["BAN_FIRST_SECONDS", 1, 86_400, ({ bans }) => bans.firstBanMs / 1_000],
  ["BAN_LONGEST_SECONDS", 1, 2_073_600, ({ bans }) => bans.longestBanMs / 1_000],
  ["BAN_FORGET_SECONDS", 1, 2_592_000, ({ bans }) => bans.forgetAfterMs / 1_000],
  ["LIMITER_TIMEOUT_MS", 1, 30_000, ({ limiterTimeoutMs }) => limiterTimeoutMs],
  ["DATABASE_TIMEOUT_MS", 1, 30_000, ({ databaseTimeoutMs }) => databaseTimeoutMs],
  ["CANCELLED_ORDER_DAYS", 1, 36_500, ({ cancelledOrderDays }) => cancelledOrderDays],
])("%s is a whole number from %d to %d", ([name, min, max, field]) => {
  const least = { BAN_MIN_STRIKES: 1, BAN_FIRST_SECONDS: 1 };
  const most = { BAN_MAX_STRIKES: 1_000_000, BAN_LONGEST_SECONDS: 2_073_600 };
  for (const value of [min, max, String(min)]) {
    expect(field(parseConfig({ ...least, ...most, [name]: value }))).toBe(Number(value));
  }
  for (const value of ["", "1.5", "1e3", "0x10", min - 1, String(max + 1), max + 1, null]) {
    expect(() => parseConfig({ [name]: value }), `${JSON.stringify(value)}`).toThrow(
      `Invalid vars: ${name}: must be a whole number from ${min} to ${max}`,
    );
  }
});

const [EARLY, LATE] = ["2028-01-01T00:00:00Z", "2028-07-01T12:30:00Z"];
const lifecycle = { deprecatedAt: new Date(EARLY), sunsetAt: new Date(LATE) };
const atOnce = { deprecatedAt: new Date(LATE), sunsetAt: new Date(LATE) };
const corsOrigins = new Set(["https://app.example", "http://localhost:3000"]);

test.for<[vars: object, changed: Partial<Config>]>([
  // Bindings are ignored.
  [{ ORDERS: { prepare() {} } }, {}],
  [{ BAN_MODE: "log" }, { bans: { ...DEFAULT_BANS, mode: "log" } }],
  [{ REQUEST_LOG: "errors" }, { requestLog: "errors" }],
  [{ ALLOW_HTTP: true }, { allowsHttp: true }],
  [{ JURISDICTION: "eu" }, { jurisdiction: "eu" }],
  [{ LIST_READS: "nearest" }, { listReads: "nearest" }],
  [{ CORS_ORIGINS: " https://app.example, ,http://localhost:3000 " }, { corsOrigins }],
  [{ V1_DEPRECATED_AT: EARLY, V1_SUNSET_AT: LATE }, { lifecycle }],
  [{ V1_DEPRECATED_AT: LATE, V1_SUNSET_AT: LATE }, { lifecycle: atOnce }],
])("%j changes only its own field of the defaults", ([vars, changed]) => {
  expect(parseConfig(vars)).toEqual({ ...DEFAULTS, ...changed });
});

test.for<[vars: object, message: string]>([
  [
    { BAN_MODE: "yes", REQUEST_LOG: "" },
    "REQUEST_LOG: must be all, errors or none; BAN_MODE: must be on, log or off",
  ],
  [{ ALLOW_HTTP: "yes" }, "ALLOW_HTTP: must be true or false"],
  [{ BAN_MIN_STRIKES: 1_001 }, "BAN_MIN_STRIKES must not exceed BAN_MAX_STRIKES"],
  [{ BAN_LONGEST_SECONDS: 59 }, "BAN_FIRST_SECONDS must not exceed BAN_LONGEST_SECONDS"],
  [{ V1_DEPRECATED_AT: LATE, V1_SUNSET_AT: EARLY }, "V1_SUNSET_AT must not be earlier than V1"],
  [{ V1_DEPRECATED_AT: "2028-01-01" }, "V1_DEPRECATED_AT: must be a date-time in UTC"],
  [{ CORS_ORIGINS: "*" }, "CORS_ORIGINS: entry 1 is not an origin"],
  [{ CORS_ORIGINS: "https://a.example,https://b.example/" }, "CORS_ORIGINS: entry 2 is not"],
])("%j is refused, and the error names every wrong var", ([vars, message]) => {
  expect(() => parseConfig(vars)).toThrow(`Invalid vars: ${message}`);
});
