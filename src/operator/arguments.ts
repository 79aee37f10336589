import { resolve } from "node:path";
import { InvalidArgumentError, Option } from "commander";
import { isName, NAME_RULE } from "../rules/keys/key-name.ts";
import { MAX_LIMIT, PLANS } from "../rules/limits/plans.ts";
import { PROJECT_ROOT } from "./wrangler.ts";

/** The environments in `wrangler.toml`. Each has its own Worker and databases. */
const REMOTE_ENVIRONMENTS = ["staging", "production"] as const;

export type RemoteEnvironment = (typeof REMOTE_ENVIRONMENTS)[number];

const UNIT_MS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** A date, or a time in ISO 8601 with its offset and at most three decimals that are not 0. */
const TIME =
  /^(?<day>\d{4}-\d\d-\d\d)(?:T(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,3}0*)?)?(?:Z|[+-][0-2]\d:[0-5]\d))?$/;

const expected = (what: string) => new InvalidArgumentError(`Expected ${what}.`);

export const envOption = (description: string) =>
  new Option("--env <environment>", description).choices(REMOTE_ENVIRONMENTS);

export const persistToOption = (description: string) =>
  new Option("--persist-to <dir>", description).argParser(parsePath);

/**
 * Returns the absolute path of a typed path, from where the operator stands: npm runs scripts in the
 * project's folder, and names the operator's folder in `INIT_CWD`.
 */
export function parsePath(text: string): string {
  if (text === "") throw expected("a path");
  const isStartedByNpm = process.cwd() === PROJECT_ROOT;
  return resolve((isStartedByNpm && process.env["INIT_CWD"]) || "", text);
}

/** Parses the path of a file, or `-`, which names standard input or output. */
export const parseFile = (text: string) => (text === "-" ? text : parsePath(text));

export const jsonOption = () =>
  new Option("--json", "print one JSON value and nothing else").default(false);

export const planOption = () => new Option("--plan <plan>", "plan of the key").choices(PLANS);

export const limitOption = (flags: string) =>
  new Option(flags, "own limit, Enterprise only").argParser(wholeNumberParser(MAX_LIMIT));

export function wholeNumberParser(max: number): (text: string) => number {
  return (text) => {
    const value = /^[1-9]\d{0,9}$/.test(text) ? Number(text) : NaN;
    if (value <= max) return value;
    throw expected(`a whole number from 1 to ${max}`);
  };
}

/** Parses the value of an option such as `--limit`: a whole number from 1 to 999,999,999. */
export const parseCount = wholeNumberParser(999_999_999);

export function parseName(text: string): string {
  if (isName(text)) return text;
  throw expected(NAME_RULE);
}

/** Parses a time in ISO 8601, to milliseconds. A date alone means 00:00 UTC. */
export function parseTime(text: string): Date {
  const { day } = TIME.exec(text)?.groups ?? {};
  const time = new Date(text);
  // `Date` takes February 30 for March 2, and writes null for a time that does not exist.
  const isDay = new Date(`${day}T00:00Z`).toJSON()?.startsWith(`${day}T`);
  // With an offset, a time can be of a year that RFC 3339 cannot write.
  if (isDay && /^\d{4}-/.test(time.toJSON())) return time;
  const times = "2027-01-31T12:00:00Z or 2027-01-31T12:00:00.000+02:00";
  throw expected(`a date such as 2027-01-31 or a time such as ${times}`);
}

export const parseTimeOrNever = (text: string) => (text === "never" ? text : parseTime(text));

/** Parses a duration of up to 90 days, such as `90m`, to milliseconds. */
export function parseDuration(text: string): number {
  const [, count, unit] = /^(\d{1,9})([smhd])$/.exec(text) ?? [];
  const ms = text === "0" ? 0 : Number(count) * UNIT_MS[unit as keyof typeof UNIT_MS];
  if (ms <= 90 * UNIT_MS.d) return ms;
  throw expected("a duration such as 90m, 24h or 7d, of 90 days at most, or 0");
}

/** Parses the address of a service: an HTTP URL without a path. */
export function parseUrl(text: string): string {
  const url = URL.parse(text);
  if (/^https?:/.test(url?.href ?? "") && url?.href === `${url?.origin}/`) return url.origin;
  throw expected("an address without a path, such as https://shop.example");
}
