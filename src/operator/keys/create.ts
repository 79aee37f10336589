import { type Command, Option } from "commander";
import { LOCATION_HINTS, type LocationHint } from "../../schema/location-hints.ts";
import { createApiKey, refusePast } from "../key-store/administration.ts";
import { type Limits, type Plan, PLAN_LIMITS } from "../../worker/limit-rules/plans.ts";
import { UsageError } from "../command-line.ts";
import { type StoreCommandOptions, useDatabase } from "../database/open.ts";
import { limitOptions, parseName, parseTime, planOption } from "../arguments.ts";
import { addKeys } from "../key-store/change-key.ts";
import { formatNumber } from "../terminal-text.ts";
import { printSecret } from "./print-keys.ts";

const EXAMPLES = `
Examples:
  $ npm run keys -- create --plan free --name "Pet shop"
  $ npm run keys -- create --plan pro --name Trial --expires 2027-01-31
  $ npm run keys -- create --plan enterprise --name Chain --per-minute 5000 --per-day 500000
  $ npm run keys -- create --plan pro --name "Zoo" --near weur

Plans, in requests per minute and per day:
${Object.entries(PLAN_LIMITS)
  .map(
    ([plan, { perMinute, perDay }]) =>
      `  ${plan.padEnd(12)}${formatNumber(perMinute)} and ${formatNumber(perDay)}`,
  )
  .join("\n")}
  enterprise  set for each key: --per-minute and --per-day

Every request with a key calls the key's limiter, a Durable Object in one data centre. The key's first
request creates the limiter near the client, or in the region of --near. The limiter never moves. So
if you try a key from somewhere else first, name the region of its clients with --near: wnam (western
North America), enam (eastern North America), sam (South America), weur and eeur (western and eastern
Europe), apac, apac-ne and apac-se (Asia), oc (Oceania), afr (Africa), me (Middle East). Cloudflare
creates the limiter in or near this region.

The key is shown once. The store keeps only its hash, so nobody can look the key up later. Only the key
goes to standard output, so a script can keep it: KEY=$(npm run -s keys -- create ...)`;

interface CreateOptions extends StoreCommandOptions {
  readonly plan: Plan;
  readonly name: string;
  readonly perMinute?: number;
  readonly perDay?: number;
  readonly expires?: Date;
  readonly near?: LocationHint;
}

/** Adds the options and the action of `keys create`, which stores a key and prints its secret. */
export function defineCreate(command: Command): void {
  command.description("create an API key").addOption(planOption().makeOptionMandatory());
  command.requiredOption("--name <text>", "whose key it is, up to 100 characters", parseName);
  for (const option of limitOptions()) command.addOption(option);
  command
    .addOption(
      new Option(
        "--near <region>",
        "where the key's limiter is created (default: near the key's first request)",
      ).choices(LOCATION_HINTS),
    )
    .option("--expires <time>", "when the key expires, in ISO 8601 (default: never)", parseTime)
    .addHelpText("after", EXAMPLES)
    .action(create);
}

async function create(options: CreateOptions): Promise<void> {
  const limits = ownLimits(options);
  const now = new Date();
  const { name, plan, expires: expiresAt = null, near: locationHint = null } = options;
  refusePast(expiresAt, now);
  const created = createApiKey({ name, plan, limits, expiresAt, locationHint }, now);
  await useDatabase(options, "keys", (database) => addKeys(database, [created.record]), {
    mayMake: true,
  });
  printSecret(created.key, created.record, options);
}

function ownLimits({ plan, perMinute, perDay }: CreateOptions): Limits | null {
  if (plan === "enterprise") {
    if (perMinute !== undefined && perDay !== undefined) return { perMinute, perDay };
    throw new UsageError("the plan enterprise needs --per-minute and --per-day");
  }
  if (perMinute === undefined && perDay === undefined) return null;
  throw new UsageError(
    `the plan ${plan} has fixed limits: --per-minute and --per-day are for enterprise only`,
  );
}
