import { InvalidArgumentError, Option } from "commander";
import { z } from "zod";
import { MAX_LIMIT, PLANS } from "../rules/limits/plans.ts";

/** The environments in `wrangler.toml`. Each has its own Worker and databases. */
const REMOTE_ENVIRONMENTS = ["staging", "production"] as const;

export type RemoteEnvironment = (typeof REMOTE_ENVIRONMENTS)[number];

const UNIT_MS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

const timeSchema = z.union([z.iso.date(), z.iso.datetime({ offset: true })]);

/** Returns the option `--env`, which names a deployed environment. */
export const envOption = (description: string) =>
  new Option("--env <environment>", description).choices(REMOTE_ENVIRONMENTS);

/** Returns the option `--persist-to`, the folder of a local store. */
export function persistToOption(description: string): Option {
  return new Option("--persist-to <dir>", description).argParser((folder: string) => {
    if (folder === "") throw new InvalidArgumentError("Expected the path of a folder.");
    return folder;
  });
}

/** Returns the option `--json`, with which a command prints data for programs. */
export const jsonOption = () =>
  new Option("--json", "print one JSON value and nothing else").default(false);

/** Returns the option `--plan`. docs/limits.md lists the plans. */
export const planOption = () => new Option("--plan <plan>", "plan of the key").choices(PLANS);

/** Returns the option `--per-minute` or `--per-day`, a limit of an Enterprise key. */
export const limitOption = (flags: string) =>
  new Option(flags, "own limit, Enterprise only").argParser(wholeNumberParser(MAX_LIMIT));

/** Returns a parser for whole numbers from 1 to `max`. */
export function wholeNumberParser(max: number): (text: string) => number {
  return (text) => {
    const value = /^[1-9]\d{0,9}$/.test(text) ? Number(text) : NaN;
    if (value <= max) return value;
    throw new InvalidArgumentError(`Expected a whole number from 1 to ${max}.`);
  };
}

/** Parses the value of an option such as `--limit`: a whole number from 1 to 999,999,999. */
export const parseCount = wholeNumberParser(999_999_999);

export function parseName(text: string): string {
  if (isName(text)) return text;
  throw new InvalidArgumentError(
    "Expected 1 to 100 characters, not only spaces, without control characters.",
  );
}

/** A name is one line of 1 to 100 characters, is not blank, and has no control characters. */
export function isName(text: string): boolean {
  return text.trim() !== "" && /^[^\p{Cc}\p{Zl}\p{Zp}]{1,100}$/u.test(text);
}

/** Parses a time in ISO 8601, to milliseconds. A date alone means 00:00 UTC. */
export function parseTime(text: string): Date {
  const parsed = timeSchema.safeParse(text);
  if (parsed.success && !/\.\d{3}\d*[1-9]/.test(text)) return new Date(parsed.data);
  throw new InvalidArgumentError(
    "Expected a date such as 2027-01-31 or a time such as 2027-01-31T12:00:00Z or 2027-01-31T12:00:00.000+02:00.",
  );
}

/** Parses the word `never`, or a time as `parseTime` does. */
export function parseTimeOrNever(text: string): Date | "never" {
  return text === "never" ? text : parseTime(text);
}

/** Returns a parser that converts durations of up to `maxDays`, such as `90m`, to milliseconds. */
export function durationParser(maxDays: number): (text: string) => number {
  return (text) => {
    const { count, unit } = /^(?<count>\d{1,9})(?<unit>[smhd])$/.exec(text)?.groups ?? {};
    const ms = text === "0" ? 0 : Number(count) * UNIT_MS[unit as keyof typeof UNIT_MS];
    if (ms <= maxDays * UNIT_MS.d) return ms;
    throw new InvalidArgumentError(
      `Expected a duration such as 90m, 24h or 7d, of ${maxDays} days at most, or 0.`,
    );
  };
}

/** Parses the address of a service: an HTTP URL without a path. */
export function parseUrl(text: string): string {
  const url = URL.parse(text);
  if (/^https?:/.test(url?.href ?? "") && url?.href === `${url?.origin}/`) return url.origin;
  throw new InvalidArgumentError(
    "Expected an address without a path, such as https://shop.example.",
  );
}
