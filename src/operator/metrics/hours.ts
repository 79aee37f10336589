import { InvalidArgumentError } from "commander";
import { parseCount } from "../arguments.ts";

/**
 * The largest number of hours that a query can look back: Analytics Engine keeps data for three
 * months.
 */
const LONGEST_HOURS = 2_208;

/** Parses a number of hours for which Analytics Engine has data. */
export function parseHours(text: string): number {
  const hours = parseCount(text);
  if (hours <= LONGEST_HOURS) return hours;
  throw new InvalidArgumentError(`Expected at most ${LONGEST_HOURS}: older data is not kept.`);
}
