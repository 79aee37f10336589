import { InvalidArgumentError, Option } from "commander";
import { z } from "zod";
import { MAX_LIMIT, PLANS } from "../worker/limits/plans.ts";

const MAX_NAME_CHARACTERS = 100;

const timeSchema = z.union([z.iso.date(), z.iso.datetime({ offset: true })]);
const finerThanMilliseconds = /\.\d{3}\d*[1-9]/;

/** An option that names a plan of the specification (section Limits). */
export function planOption(): Option {
  return new Option("--plan <plan>", "plan of the key").choices(PLANS);
}

/** The options of an Enterprise key's own limits, in requests. */
export function limitOptions(): Option[] {
  return [
    new Option("--per-minute <n>", "own limit, Enterprise only").argParser(parseLimit),
    new Option("--per-day <n>", "own limit, Enterprise only").argParser(parseLimit),
  ];
}

/** Reads a limit: a whole number of requests from 1 to `MAX_LIMIT`. */
export function parseLimit(text: string): number {
  const limit = /^[1-9]\d{0,9}$/.test(text) ? Number(text) : NaN;
  if (limit <= MAX_LIMIT) return limit;
  throw new InvalidArgumentError(`Expected a whole number from 1 to ${MAX_LIMIT}.`);
}

/** Reads how many: a whole number from 1. */
export function parseCount(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new InvalidArgumentError("Expected a whole number from 1 to 999999999.");
}

/** Reads a name: 1 to 100 characters, none of them a control character or a line end. */
export function parseName(text: string): string {
  if (isName(text)) return text;
  throw new InvalidArgumentError(
    `Expected 1 to ${MAX_NAME_CHARACTERS} characters, not only spaces, without control characters.`,
  );
}

/** Whether `parseName` would take it. */
export function isName(text: string): boolean {
  const characters = Array.from(text).length;
  const isOneLine = !/[\p{Cc}\p{Zl}\p{Zp}]/u.test(text);
  return text.trim() !== "" && characters <= MAX_NAME_CHARACTERS && isOneLine;
}

/** Reads a point in time in ISO 8601: a date, which means its beginning in UTC, or a date-time. */
export function parseTime(text: string): Date {
  const parsed = timeSchema.safeParse(text);
  if (parsed.success && !finerThanMilliseconds.test(text)) return new Date(parsed.data);
  throw new InvalidArgumentError(
    "Expected a date such as 2027-01-31 or a time such as 2027-01-31T12:00:00Z or 2027-01-31T12:00:00.000+02:00.",
  );
}

/** Like `parseTime`, or `never`. */
export function parseTimeOrNever(text: string): Date | "never" {
  return text === "never" ? text : parseTime(text);
}
