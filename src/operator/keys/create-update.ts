import { type Command, Option } from "commander";
import { LOCATION_HINTS, type LocationHint } from "../../rules/keys/location-hints.ts";
import type { KeyDetails } from "../key-store/key-details.ts";
import { type Limits, type Plan, PLAN_LIMITS } from "../../rules/limits/plans.ts";
import { limitOptions, parseName, parseTime, parseTimeOrNever, planOption } from "../arguments.ts";
import { UsageError } from "../command-line.ts";
import { type StoreCommandOptions, useDatabase } from "../database/open.ts";
import { createApiKey } from "../key-store/administration.ts";
import { addKeys, changeKey } from "../key-store/change-key.ts";
import { formatNumber } from "../terminal-text.ts";
import { printKey, printSecret } from "./print-keys.ts";

const CREATE_EXAMPLES = `
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

const UPDATE_EXAMPLES = `
Examples:
  $ npm run keys -- update key_abc --plan pro
  $ npm run keys -- update key_abc --plan enterprise --per-minute 5000 --per-day 500000
  $ npm run keys -- update key_abc --per-day 800000     one limit of an Enterprise key
  $ npm run keys -- update key_abc --expires never

A change takes effect everywhere within 30 seconds. Requests that are already counted in a window stay
counted if its limit changes.`;

interface UpdateOptions extends StoreCommandOptions {
  readonly plan?: Plan;
  readonly name?: string;
  readonly perMinute?: number;
  readonly perDay?: number;
  readonly expires?: Date | "never";
}

interface CreateOptions extends UpdateOptions {
  readonly plan: Plan;
  readonly name: string;
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
    .addHelpText("after", CREATE_EXAMPLES)
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

/** Adds the options and the action of `keys update`, which changes the settings of a key. */
export function defineUpdate(command: Command): void {
  command.description("change a key's plan, limits, name or expiry").addOption(planOption());
  for (const option of limitOptions()) command.addOption(option);
  command
    .option("--name <text>", "whose key it is, up to 100 characters", parseName)
    .option("--expires <time>", "when the key expires, in ISO 8601, or never", parseTimeOrNever)
    .addHelpText("after", UPDATE_EXAMPLES)
    .action(update);
}

async function update(id: string, options: UpdateOptions): Promise<void> {
  const { plan, name, perMinute, perDay } = options;
  const expiresAt = options.expires === "never" ? null : options.expires;
  const hasLimits = perMinute !== undefined || perDay !== undefined;
  if (!hasLimits && plan === undefined && name === undefined && expiresAt === undefined) {
    throw new UsageError("nothing to change: give at least one option, see --help");
  }
  if (hasLimits && plan !== undefined && plan !== "enterprise") {
    throw new UsageError(`the plan ${plan} has fixed limits: own limits are for enterprise only`);
  }
  if (expiresAt !== undefined) refusePast(expiresAt, new Date());
  const key = await useDatabase(options, "keys", (database) =>
    changeKey(database, id, "update", (current) => ({
      ...current,
      ...(name !== undefined && { name }),
      ...(expiresAt !== undefined && { expiresAt }),
      ...nextLimits(current, options),
    })),
  );
  printKey(key, { json: options.json, title: "The key is now:" });
}

function nextLimits(
  current: KeyDetails,
  options: UpdateOptions,
): Pick<KeyDetails, "plan" | "perMinute" | "perDay"> {
  const { plan = current.plan } = options;
  if (plan === "enterprise") {
    const { perMinute = current.perMinute, perDay = current.perDay } = options;
    if (perMinute !== null && perDay !== null) return { plan, perMinute, perDay };
    throw new Error("the plan enterprise needs --per-minute and --per-day");
  }
  if (options.perMinute === undefined && options.perDay === undefined) {
    return { plan, perMinute: null, perDay: null };
  }
  throw new Error(
    `the key has the plan ${plan}, whose limits are fixed: own limits come with --plan enterprise`,
  );
}

function refusePast(expiresAt: Date | null, now: Date): void {
  if (expiresAt === null || expiresAt > now) return;
  throw new Error(
    `the expiry ${expiresAt.toISOString()} is in the past; \`revoke\` ends a key at once`,
  );
}
