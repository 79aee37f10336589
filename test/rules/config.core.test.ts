import { expect, test } from "vitest";
import { type Config, parseConfig } from "../../src/rules/config.ts";
import { DEFAULT_BANS } from "./limits/simulated-limiter.ts";

const DEFAULTS: Config = {
  corsOrigins: new Set(),
  lifecycle: { deprecatedAt: undefined, sunsetAt: undefined },
  requestLog: "none",
  listReads: "primary",
  bans: DEFAULT_BANS,
  limiterTimeoutMs: 5_000,
  databaseTimeoutMs: 10_000,
  cancelledOrderDays: undefined,
};

const ban = (bans: Partial<Config["bans"]>) => ({ bans: { ...DEFAULT_BANS, ...bans } });

/** Whole numbers: the least, a number that differs from the default, and the greatest. */
const NUMBERS: readonly [string, number, number, number, (value: number) => Partial<Config>][] = [
  ["BAN_GRACE_SECONDS", 0, 3, 60, (value) => ban({ graceMs: 1_000 * value })],
  ["BAN_STRIKE_WINDOW_SECONDS", 1, 30, 86_400, (value) => ban({ strikeWindowMs: 1_000 * value })],
  ["BAN_MIN_STRIKES", 1, 1_000, 1_000_000, (value) => ban({ minStrikes: value })],
  ["BAN_MAX_STRIKES", 1, 60, 1_000_000, (value) => ban({ maxStrikes: value })],
  ["BAN_FIRST_SECONDS", 1, 86_400, 86_400, (value) => ban({ firstBanMs: 1_000 * value })],
  ["BAN_LONGEST_SECONDS", 1, 60, 2_073_600, (value) => ban({ longestBanMs: 1_000 * value })],
  ["BAN_FORGET_SECONDS", 1, 12, 2_592_000, (value) => ban({ forgetAfterMs: 1_000 * value })],
  ["LIMITER_TIMEOUT_MS", 1, 14, 30_000, (value) => ({ limiterTimeoutMs: value })],
  ["DATABASE_TIMEOUT_MS", 1, 17, 30_000, (value) => ({ databaseTimeoutMs: value })],
  ["CANCELLED_ORDER_DAYS", 1, 18, 36_500, (value) => ({ cancelledOrderDays: value })],
];

test.for(NUMBERS)("%s is a whole number from %d", ([name, min, other, max, changed]) => {
  for (const value of [other, String(other)]) {
    expect(parseConfig({ [name]: value })).toEqual({ ...DEFAULTS, ...changed(other) });
  }
  // The least and the greatest number may contradict other vars, which is said of both together.
  for (const value of [min, max]) {
    const others = { BAN_MAX_STRIKES: 1_000_000, BAN_LONGEST_SECONDS: 2_073_600 };
    const all = { BAN_MIN_STRIKES: 1, BAN_FIRST_SECONDS: 1, ...others, [name]: value };
    expect(() => parseConfig(all)).not.toThrow();
  }
  for (const value of ["", "1.5", "1e3", "0x10", min - 1, String(max + 1), max + 1, null]) {
    expect(() => parseConfig({ [name]: value }), `${JSON.stringify(value)}`).toThrow(
      `Invalid vars: ${name}: must be a whole number from ${min} to ${max}`,
    );
  }
});

const [EARLY, LATE] = ["2028-01-01T00:00:00Z", "2028-07-01T12:30:00Z"];
const lifecycle = { deprecatedAt: new Date(EARLY), sunsetAt: new Date(LATE) };
const corsOrigins = new Set(["https://app.example", "http://localhost:3000"]);

test.for<[vars: object, changed: Partial<Config>]>([
  // Bindings are ignored.
  [{ ORDERS: { prepare() {} } }, {}],
  [{ BAN_MODE: "log" }, ban({ mode: "log" })],
  [{ REQUEST_LOG: "errors" }, { requestLog: "errors" }],
  [{ LIST_READS: "nearest" }, { listReads: "nearest" }],
  [{ CORS_ORIGINS: " https://app.example, ,http://localhost:3000 " }, { corsOrigins }],
  [{ V1_DEPRECATED_AT: EARLY, V1_SUNSET_AT: LATE }, { lifecycle }],
])("%j changes only its own field of the defaults", ([vars, changed]) => {
  expect(parseConfig(vars)).toEqual({ ...DEFAULTS, ...changed });
});

test.for<[vars: object, message: string]>([
  [{ BAN_MODE: "yes" }, "BAN_MODE: must be on, log or off"],
  [{ REQUEST_LOG: "" }, "REQUEST_LOG: must be all, errors or none"],
  [{ LIST_READS: "near" }, "LIST_READS: must be primary or nearest"],
  [{ BAN_MIN_STRIKES: 1_001 }, "BAN_MIN_STRIKES must not exceed BAN_MAX_STRIKES"],
  [{ BAN_LONGEST_SECONDS: 59 }, "BAN_FIRST_SECONDS must not exceed BAN_LONGEST_SECONDS"],
  [{ V1_DEPRECATED_AT: LATE, V1_SUNSET_AT: EARLY }, "V1_SUNSET_AT must not be earlier than V1"],
  [{ V1_DEPRECATED_AT: "2028-01-01" }, "V1_DEPRECATED_AT: must be a date-time in UTC"],
  [{ CORS_ORIGINS: "*" }, "CORS_ORIGINS: entry 1 is not an origin"],
  [{ CORS_ORIGINS: "https://a.example,https://b.example/" }, "CORS_ORIGINS: entry 2 is not"],
])("%j is refused, and the error names the var", ([vars, message]) => {
  expect(() => parseConfig(vars)).toThrow(`Invalid vars: ${message}`);
});
