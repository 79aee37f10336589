import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { parseConfig } from "../../src/worker/config.ts";
import { DEFAULT_BANS } from "./limit-rules/simulated-limiter.ts";

/** The vars that are whole numbers, with their defaults and maximums in the unit of each var. */
const NUMBERS = [
  { name: "BAN_GRACE_SECONDS", fallback: 10, max: 60 },
  { name: "BAN_STRIKE_WINDOW_SECONDS", fallback: 60, max: 86_400 },
  { name: "BAN_MIN_STRIKES", fallback: 60, max: 1_000_000 },
  { name: "BAN_MAX_STRIKES", fallback: 1_000, max: 1_000_000 },
  { name: "BAN_FIRST_SECONDS", fallback: 60, max: 86_400 },
  { name: "BAN_LONGEST_SECONDS", fallback: 86_400, max: 30 * 86_400 },
  { name: "BAN_FORGET_SECONDS", fallback: 86_400, max: 30 * 86_400 },
  { name: "LIMITER_TIMEOUT_MS", fallback: 5_000, max: 30_000 },
  { name: "DATABASE_TIMEOUT_MS", fallback: 10_000, max: 30_000 },
];

const DEFAULTS = {
  corsOrigins: new Set(),
  lifecycle: {},
  requestLog: "none",
  listReads: "primary",
  bans: DEFAULT_BANS,
  limiterTimeoutMs: 5_000,
  databaseTimeoutMs: 10_000,
};

/** Reads the documented default of each var from the table in docs/operating.md. */
function documentedDefaults(): Record<string, string> {
  const text = readFileSync("docs/operating.md", "utf8");
  const rows = [...text.matchAll(/^\| *((?:`[A-Z][A-Z0-9_]*`(?:, )?)+) *\| *([^|]+?) *\|/gm)];
  return Object.fromEntries(
    rows.flatMap(([, names = "", values = ""]) => {
      const defaults = values.split(", ");
      return names
        .replaceAll("`", "")
        .trim()
        .split(", ")
        .map((name, index) => [name, defaults[index] ?? ""]);
    }),
  );
}

describe("the configuration", () => {
  test("has the defaults if no var is set (docs/limits.md, Bans)", () => {
    expect(parseConfig({})).toEqual(DEFAULTS);
  });

  test("has the documented defaults (docs/operating.md, Configuration)", () => {
    expect(documentedDefaults()).toStrictEqual({
      ...Object.fromEntries(NUMBERS.map(({ name, fallback }) => [name, String(fallback)])),
      CANCELLED_ORDER_DAYS: "never",
      REQUEST_LOG: "none",
      LIST_READS: "primary",
      BAN_MODE: "on",
      CORS_ORIGINS: "none",
      V1_DEPRECATED_AT: "none",
      V1_SUNSET_AT: "none",
    });
  });

  test("ignores bindings and unknown vars", () => {
    const env = {
      ORDERS: { prepare() {} },
      RATE_LIMITER: {},
      CLOUDFLARE_CF_FETCH_ENABLED: "false",
    };
    expect(parseConfig(env)).toEqual(DEFAULTS);
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
      CORS_ORIGINS: "https://app.example",
      V1_DEPRECATED_AT: "2028-01-01T00:00:00Z",
      V1_SUNSET_AT: "2028-07-01T12:30:00Z",
    };
    expect(parseConfig(vars)).toEqual({
      corsOrigins: new Set(["https://app.example"]),
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
});

describe("an invalid var throws an error with the name of the var", () => {
  const WRONG = ["", " ", "abc", "-1", "1.5", "1e3", "0x10", "9".repeat(30)];
  const NOT_WHOLE = [-1, 1.5, 2 ** 53, Number.NaN, true, null, []];

  test.for([...NUMBERS, { name: "CANCELLED_ORDER_DAYS", max: 36_500 }])(
    "$name",
    ({ name, max }) => {
      for (const value of [...WRONG, ...NOT_WHOLE, max + 1, String(max + 1)]) {
        expect(() => parseConfig({ [name]: value }), `${JSON.stringify(value)}`).toThrow(
          new RegExp(`^Invalid vars: ${name}: must be a whole number from \\d to ${max}(;|$)`),
        );
      }
    },
  );

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
    [{ CORS_ORIGINS: 7 }, "CORS_ORIGINS: must be a list of origins"],
    [
      { BAN_GRACE_SECONDS: "x", CORS_ORIGINS: "x" },
      "CORS_ORIGINS: x is not an origin such as https://app.example; BAN_GRACE_SECONDS: must be",
    ],
  ])("%j", (vars, message) => {
    expect(() => parseConfig(vars)).toThrow(`Invalid vars: ${message}`);
  });

  test("a date-time and an origin", () => {
    for (const name of ["V1_DEPRECATED_AT", "V1_SUNSET_AT"]) {
      for (const value of [
        "",
        "2028-01-01",
        "2028-02-30T00:00:00Z",
        "@1830297600",
        1_830_297_600,
      ]) {
        const message = `Invalid vars: ${name}: must be a date-time in UTC`;
        expect(() => parseConfig({ [name]: value })).toThrow(message);
      }
    }
    for (const CORS_ORIGINS of [
      "*",
      "app.example",
      "https://app.example/",
      "null",
      "https://a b",
    ]) {
      const message = `Invalid vars: CORS_ORIGINS: ${CORS_ORIGINS} is not an origin`;
      expect(() => parseConfig({ CORS_ORIGINS })).toThrow(message);
    }
  });

  test("but not vars that are equal, or a grace of zero", () => {
    expect(parseConfig({ BAN_GRACE_SECONDS: 0 }).bans.graceMs).toBe(0);
    parseConfig({ BAN_MIN_STRIKES: 7, BAN_MAX_STRIKES: 7 });
    parseConfig({ BAN_FIRST_SECONDS: 7, BAN_LONGEST_SECONDS: 7 });
    const end = "2028-01-01T00:00:00Z";
    parseConfig({ V1_DEPRECATED_AT: end, V1_SUNSET_AT: end });
  });
});

test("CORS_ORIGINS is a list of origins, separated by commas", () => {
  const origins = (text: string) => [...parseConfig({ CORS_ORIGINS: text }).corsOrigins];
  const both = ["https://app.example", "http://localhost:3000"];
  expect(origins(` ${both.join(",")} `)).toStrictEqual(both);
  expect(["", " , "].map(origins)).toStrictEqual([[], []]);
});
