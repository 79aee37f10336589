import { parseConfig } from "../rules/config.ts";
import { EXACT_READERS, JQ_WARNING, ROUNDING_WARNING } from "./exact-integers.ts";
import { type Limits, PLAN_LIMITS } from "../rules/limits/plans.ts";

/** The default configuration of bans. All times are in milliseconds. */
export const { bans } = parseConfig({});

/** How requests are counted, in Markdown. */
export const WINDOWS = `A key has two windows, a minute and a day. A window opens with the first request counted in it and ends exactly its length later. A request is admitted only if both windows have room. It then counts in both; a refused request counts in neither. On a 429, wait for \`Retry-After\` and send one request: it is admitted.`;

/** When a key is banned, in Markdown. */
export const BANS = `A key that keeps sending for more than ${bans.graceMs / 1_000} seconds instead collects strikes and is banned. The first ban lasts ${bans.firstBanMs / 1_000} seconds. Each further ban lasts twice as long, up to ${bans.longestBanMs / 3_600_000} hours. A client that waits, or backs off exponentially, is never banned.`;

export const VERSIONS = `The version is in the address: \`/v1\`. Nothing in it is removed, renamed or given another meaning. Fields, headers and error codes may be added to it: a client ignores those that it does not know. Filtering and pagination of the list come with v2, at an address of its own; \`/v1\` stays as it is. Before \`/v1\` ends, each of its answers announces the end. \`Deprecation\` (RFC 9745) is the time from which it is deprecated; \`Sunset\` (RFC 8594) is the time from which it may stop answering.`;

/** The service's description in Markdown. */
export const description = `List the orders of a store, and cancel those that have not shipped.

## Integers

Identifiers and quantities are int64, digit for digit, as JSON numbers.

**${ROUNDING_WARNING}**

${JQ_WARNING}

These lines keep every digit:

${EXACT_READERS.map(readerSection).join("\n\n")}

## Rate limits

| plan | per minute | per day |
|---|---|---|
${Object.entries(PLAN_LIMITS).map(planRow).join("\n")}
| Enterprise | set for each key | set for each key |

${WINDOWS} ${BANS}

## Versions and deprecation

${VERSIONS}`;

function readerSection({ language, fence, note, lines }: (typeof EXACT_READERS)[number]): string {
  return `### ${language}\n\n${note}\n\n\`\`\`${fence}\n${lines}\n\`\`\``;
}

function planRow([plan, { perMinute, perDay }]: [string, Limits]): string {
  const name = plan.charAt(0).toUpperCase() + plan.slice(1);
  return `| ${name} | ${perMinute.toLocaleString("en")} | ${perDay.toLocaleString("en")} |`;
}
