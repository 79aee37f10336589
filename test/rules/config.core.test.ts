import { describe, expect, test } from "vitest";
import { parseConfig } from "../../src/rules/config.ts";
import { DEFAULT_BANS } from "./limits/simulated-limiter.ts";

/** The vars that are whole numbers, with their defaults and maximums in the unit of each var. */
const NUMBERS = [
  ["BAN_GRACE_SECONDS", 10, 60],
  ["BAN_STRIKE_WINDOW_SECONDS", 60, 86_400],
  ["BAN_MIN_STRIKES", 60, 1_000_000],
  ["BAN_MAX_STRIKES", 1_000, 1_000_000],
  ["BAN_FIRST_SECONDS", 60, 86_400],
  ["BAN_LONGEST_SECONDS", 86_400, 24 * 86_400],
  ["BAN_FORGET_SECONDS", 86_400, 30 * 86_400],
  ["LIMITER_TIMEOUT_MS", 5_000, 30_000],
  ["DATABASE_TIMEOUT_MS", 10_000, 30_000],
  ["CANCELLED_ORDER_DAYS", "never", 36_500],
] as const;

describe("the configuration", () => {
  test("has defaults (docs/operating.md, Configuration), and ignores bindings", () => {
    const bindings = { ORDERS: { prepare() {} }, CLOUDFLARE_CF_FETCH_ENABLED: "false" };
    expect(parseConfig(bindings)).toEqual({
      corsOrigins: new Set(),
      lifecycle: {},
      requestLog: "none",
      listReads: "primary",
      bans: DEFAULT_BANS,
      limiterTimeoutMs: 5_000,
      databaseTimeoutMs: 10_000,
    });
  });

  test("assigns each var to its own field", () => {
    const vars = {
      BAN_MODE: "log",
      BAN_GRACE_SECONDS: 3,
      BAN_STRIKE_WINDOW_SECONDS: "30",
      BAN_MIN_STRIKES: 7,
      BAN_MAX_STRIKES: "8",
      BAN_FIRST_SECONDS: 10,
      BAN_LONGEST_SECONDS: "11",
      BAN_FORGET_SECONDS: 12,
      LIMITER_TIMEOUT_MS: 14,
      DATABASE_TIMEOUT_MS: "17",
      CANCELLED_ORDER_DAYS: "18",
      REQUEST_LOG: "errors",
      LIST_READS: "nearest",
      CORS_ORIGINS: " https://app.example, ,http://localhost:3000 ",
      V1_DEPRECATED_AT: "2028-01-01T00:00:00Z",
      V1_SUNSET_AT: "2028-07-01T12:30:00Z",
    };
    expect(parseConfig(vars)).toEqual({
      corsOrigins: new Set(["https://app.example", "http://localhost:3000"]),
      lifecycle: {
        deprecatedAt: new Date("2028-01-01T00:00:00Z"),
        sunsetAt: new Date("2028-07-01T12:30:00Z"),
      },
      requestLog: "errors",
      listReads: "nearest",
      bans: {
        mode: "log",
        graceMs: 3_000,
        strikeWindowMs: 30_000,
        minStrikes: 7,
        maxStrikes: 8,
        firstBanMs: 10_000,
        longestBanMs: 11_000,
        forgetAfterMs: 12_000,
      },
      limiterTimeoutMs: 14,
      databaseTimeoutMs: 17,
      cancelledOrderDays: 18,
    });
  });

  test("may have equal vars, and a grace of zero", () => {
    expect(parseConfig({ BAN_GRACE_SECONDS: 0 }).bans.graceMs).toBe(0);
    const end = "2028-01-01T00:00:00Z";
    parseConfig({ BAN_MIN_STRIKES: 7, BAN_MAX_STRIKES: 7 });
    parseConfig({ BAN_FIRST_SECONDS: 7, BAN_LONGEST_SECONDS: 7 });
    parseConfig({ V1_DEPRECATED_AT: end, V1_SUNSET_AT: end });
  });
});

describe("an invalid var throws an error with the name of the var", () => {
  const WRONG = ["", " ", "abc", "-1", "1.5", "1e3", "0x10", "9".repeat(30)];
  const NOT_WHOLE = [-1, 1.5, 2 ** 53, Number.NaN, true, null, []];

  test.for(NUMBERS)("%s", ([name, , max]) => {
    for (const value of [...WRONG, ...NOT_WHOLE, max + 1, String(max + 1)]) {
      expect(() => parseConfig({ [name]: value }), `${JSON.stringify(value)}`).toThrow(
        new RegExp(`^Invalid vars: ${name}: must be a whole number from \\d to ${max}(;|$)`),
      );
    }
  });

  const DATE_TIME = "must be a date-time in UTC";

  test.each<[vars: object, message: string]>([
    [{ BAN_MODE: "yes" }, "BAN_MODE: must be on, log or off"],
    [{ REQUEST_LOG: "ALL" }, "REQUEST_LOG: must be all, errors or none"],
    [{ REQUEST_LOG: "" }, "REQUEST_LOG: must be all, errors or none"],
    [{ LIST_READS: "near" }, "LIST_READS: must be primary or nearest"],
    [{ BAN_MIN_STRIKES: 1_001 }, "BAN_MIN_STRIKES must not exceed BAN_MAX_STRIKES"],
    [{ BAN_LONGEST_SECONDS: 59 }, "BAN_FIRST_SECONDS must not exceed BAN_LONGEST_SECONDS"],
    [
      { V1_DEPRECATED_AT: "2028-07-01T00:00:00Z", V1_SUNSET_AT: "2028-01-01T00:00:00Z" },
      "V1_SUNSET_AT must not be earlier than V1_DEPRECATED_AT",
    ],
    [{ V1_DEPRECATED_AT: "" }, `V1_DEPRECATED_AT: ${DATE_TIME}`],
    [{ V1_DEPRECATED_AT: "2028-01-01" }, `V1_DEPRECATED_AT: ${DATE_TIME}`],
    [{ V1_SUNSET_AT: "2028-02-30T00:00:00Z" }, `V1_SUNSET_AT: ${DATE_TIME}`],
    [{ V1_SUNSET_AT: 1_830_297_600 }, `V1_SUNSET_AT: ${DATE_TIME}`],
    [{ CORS_ORIGINS: 7 }, "CORS_ORIGINS: must be a list of origins"],
    [{ CORS_ORIGINS: "*" }, "CORS_ORIGINS: entry 1 is not an origin"],
    [{ CORS_ORIGINS: "null" }, "CORS_ORIGINS: entry 1 is not an origin"],
    [{ CORS_ORIGINS: "https://app.example/" }, "CORS_ORIGINS: entry 1 is not an origin"],
    [
      { BAN_GRACE_SECONDS: "x", CORS_ORIGINS: "x" },
      "CORS_ORIGINS: entry 1 is not an origin such as https://app.example; BAN_GRACE_SECONDS: must be",
    ],
  ])("%j", (vars, message) => {
    expect(() => parseConfig(vars)).toThrow(`Invalid vars: ${message}`);
  });
});
