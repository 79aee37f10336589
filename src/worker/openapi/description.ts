import { type Limits, PLAN_LIMITS } from "../limits/plans.ts";

/** What the document says of the service as a whole, in Markdown. */
export const description = `List the orders of a store, and cancel those that have not shipped.

## Integers

Identifiers and quantities are int64, digit for digit, as JSON numbers. JavaScript's \`JSON.parse\`
rounds them above 2^53: read them as text or as big integers.

## Rate limits

| plan | per minute | per day |
|---|---|---|
${Object.entries(PLAN_LIMITS).map(planRow).join("\n")}
| Enterprise | its own | its own |

A key has two windows, a minute and a day. A window opens with the first request counted in it and
ends exactly its length later. A request is admitted only if both have room, and then counts in both;
a refused one counts in neither. On a 429, wait for \`Retry-After\`, send one request, and it is
admitted. A key that keeps sending for more than ten seconds instead collects strikes and is banned: for 60
seconds the first time, each further time for twice as long, 24 hours at most. A client that waits, or backs off exponentially, is never banned.

## Versions and deprecation

The version is in the address: \`/v1\`. Within it nothing is removed, renamed or given another
meaning. Filtering and pagination of the list come with v2, at an address of its own; \`/v1\` stays as it
is. When \`/v1\` is to end, each of its answers says so beforehand: \`Deprecation\` (RFC 9745) since
when it is deprecated, \`Sunset\` (RFC 8594) from when it may stop answering.`;

function planRow([plan, { perMinute, perDay }]: [string, Limits]): string {
  const name = plan.charAt(0).toUpperCase() + plan.slice(1);
  return `| ${name} | ${perMinute.toLocaleString("en")} | ${perDay.toLocaleString("en")} |`;
}
