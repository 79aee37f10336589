import { type Command, Option } from "commander";
import { LOCATION_HINTS, type LocationHint } from "../../rules/keys/location-hints.ts";
import { keyState, limitsOf } from "../../rules/keys/api-key.ts";
import { type Limits, type Plan, PLAN_LIMITS } from "../../rules/limits/plans.ts";
import {
  durationParser,
  limitOptions,
  parseName,
  parseTime,
  parseTimeOrNever,
  planOption,
} from "../arguments.ts";
import { onSameStore, UsageError } from "../command-line.ts";
import { requireConfirmation, yesOption } from "../confirmation.ts";
import { databaseTime, type StoreDatabase } from "../database/database.ts";
import { type StoreCommandOptions, useDatabase } from "../database/open.ts";
import { resetApiKey, revokeApiKey, rotateApiKey } from "../key-store/administration.ts";
import { addKey, changeKey, requireApiKey } from "../key-store/change-key.ts";
import type { KeyDetails } from "../key-store/key-details.ts";
import { formatNumber } from "../terminal-text.ts";
import { printKey, printSecret } from "./show.ts";

const CREATE_EXAMPLES = `
Examples:
  $ npm run keys -- create --plan free --name "Pet shop"
  $ npm run keys -- create --plan pro --name Trial --expires 2027-01-31
  $ npm run keys -- create --plan enterprise --name Chain --per-minute 5000 --per-day 500000

Plans, in requests per minute and per day:
${Object.entries(PLAN_LIMITS)
  .map(([plan, limits]) => `  ${plan.padEnd(12)}${describeLimits(limits)}`)
  .join("\n")}
  enterprise  set for each key: --per-minute and --per-day

All times are in UTC. The key is shown once, because the store keeps only its hash. Only the key goes to
standard output: KEY=$(npm run -s keys -- create ...)

A key's limiter is made near its first request, or in the region of --near, and never moves. Name the
region of its clients if you try the key from somewhere else.`;

function describeLimits({ perMinute, perDay }: Limits): string {
  return `${formatNumber(perMinute)} and ${formatNumber(perDay)}`;
}

const UPDATE_EXAMPLES = `
Examples:
  $ npm run keys -- update key_abc --plan pro
  $ npm run keys -- update key_abc --per-day 800000     one limit of an Enterprise key
  $ npm run keys -- update key_abc --expires never

A change takes effect everywhere within 30 seconds. Requests that were counted stay counted.`;

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
    .option(
      "--expires <time>",
      "when the key expires; a date means its start in UTC (default: never)",
      parseTime,
    )
    .addHelpText("after", CREATE_EXAMPLES)
    .action(create);
}

async function create(options: CreateOptions): Promise<void> {
  const limits = ownLimits(options.plan, options, UsageError);
  const { name, plan, expires: expiresAt = null, near: locationHint = null } = options;
  const { key, record } = await useDatabase(
    options,
    "keys",
    (database) =>
      addKey(database, (now) => {
        refusePast(expiresAt, now);
        return { name, plan, limits, expiresAt, locationHint };
      }),
    { mayMake: true },
  );
  printSecret(key, record, options);
  warnOfShortDay(record);
}

function warnOfShortDay(key: KeyDetails): void {
  const { perMinute, perDay } = limitsOf(key);
  if (perDay >= perMinute) return;
  process.stderr.write(
    `warning: the day ends first: after ${formatNumber(perDay)} requests the key is refused for the rest of ` +
      `its day, so it never uses ${formatNumber(perMinute)} in a minute.\n`,
  );
}

/**
 * Returns the own limits of a key with this plan: those of the options, or else its present ones.
 *
 * @param Refusal is thrown if a limit is missing, or if the plan has fixed limits.
 */
function ownLimits(
  plan: Plan,
  { perMinute, perDay }: Partial<Limits>,
  Refusal: new (message: string) => Error,
  current?: KeyDetails,
): Limits | null {
  if (plan === "enterprise") {
    const minute = perMinute ?? current?.perMinute ?? undefined;
    const day = perDay ?? current?.perDay ?? undefined;
    if (minute !== undefined && day !== undefined) return { perMinute: minute, perDay: day };
    throw new Refusal("the plan enterprise needs --per-minute and --per-day");
  }
  if (perMinute === undefined && perDay === undefined) return null;
  throw new Refusal(
    `the plan ${plan} has fixed limits: --per-minute and --per-day are for --plan enterprise only`,
  );
}

/** Adds the options and the action of `keys update`, which changes the settings of a key. */
export function defineUpdate(command: Command): void {
  command.description("change a key's plan, limits, name or expiry").addOption(planOption());
  for (const option of limitOptions()) command.addOption(option);
  command
    .option("--name <text>", "whose key it is, up to 100 characters", parseName)
    .option(
      "--expires <time>",
      "when the key expires, or never; a date means its start in UTC",
      parseTimeOrNever,
    )
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
  if (plan !== undefined && plan !== "enterprise") ownLimits(plan, options, UsageError);
  const key = await useDatabase(options, "keys", async (database) => {
    if (expiresAt !== undefined) refusePast(expiresAt, await databaseTime(database.orm));
    return changeKey(database, id, "update", (current) => {
      const nextPlan = plan ?? current.plan;
      return {
        ...current,
        ...(name !== undefined && { name }),
        ...(expiresAt !== undefined && { expiresAt }),
        plan: nextPlan,
        ...(ownLimits(nextPlan, options, Error, current) ?? { perMinute: null, perDay: null }),
      };
    });
  });
  printKey(key, { json: options.json, title: "The key is now:" });
  warnOfShortDay(key);
}

function refusePast(expiresAt: Date | null, now: Date): void {
  if (expiresAt === null || expiresAt > now) return;
  throw new Error(
    `the expiry ${expiresAt.toISOString()} is in the past; \`revoke\` ends a key at once`,
  );
}

const DEFAULT_GRACE = "24h";
const MAX_GRACE_DAYS = 90;
/** Rotating with a shorter grace period needs confirmation: clients must change their key soon. */
const SHORT_GRACE_MS = 3_600_000;
const parseGrace = durationParser(MAX_GRACE_DAYS);

const REVOKE_EXAMPLES = `
A revoked key can never be used again. To end a key at a later time, use \`keys update --expires\`.`;

const ROTATE_EXAMPLES = `
Examples:
  $ npm run keys -- rotate key_abc                 the former key ends in ${DEFAULT_GRACE}
  $ npm run keys -- rotate key_abc --grace 0       the key has leaked: end it within 30 seconds

The former and the new key share one id, plan, limits, request counts and bans. Still earlier keys end no
later than the former one. The new key is shown once.`;

interface LastingOptions extends StoreCommandOptions {
  readonly yes: boolean;
}

const ENDS =
  "This ends its present secret for good. Clients that send it are answered 401 afterwards.";
const CONSEQUENCES = {
  revoke: ENDS,
  rotate: ENDS,
  reset: "This forgets the counts of both windows, its ban and its earlier bans for good.",
};

/** Adds the options and the action of `keys revoke`, which makes all secrets of a key invalid. */
export function defineRevoke(command: Command): void {
  command
    .description("make a key invalid permanently")
    .addOption(yesOption())
    .addHelpText("after", REVOKE_EXAMPLES)
    .action((id: string, options: LastingOptions) =>
      changeForGood(id, options, "revoke", revokeApiKey, "The key is revoked."),
    );
}

/** Adds the options and the action of `keys reset`, which resets the request counts and bans. */
export function defineReset(command: Command): void {
  command
    .description("set both request counts of a key to 0, lift its ban and forget earlier bans")
    .addOption(yesOption())
    .action((id: string, options: LastingOptions) =>
      changeForGood(id, options, "reset", resetApiKey, "The key's windows and ban are reset."),
    );
}

async function changeForGood(
  id: string,
  options: LastingOptions,
  action: "revoke" | "reset",
  decide: (current: KeyDetails, now: Date) => KeyDetails,
  title: string,
): Promise<void> {
  const key = await useDatabase(options, "keys", async (database) => {
    await confirmChange(database, id, action, options);
    return changeKey(database, id, action, decide);
  });
  printKey(key, { json: options.json, title });
}

/** Adds the options and the action of `keys rotate`, which replaces only the secret of a key. */
export function defineRotate(command: Command): void {
  command
    .description("replace a key by a new key with the same id, plan and counts")
    .addOption(
      new Option(
        "--grace <duration>",
        `how long the former key stays valid: 90m, 24h, 7d or 0, at most ${MAX_GRACE_DAYS}d`,
      )
        .argParser(parseGrace)
        .default(parseGrace(DEFAULT_GRACE), DEFAULT_GRACE),
    )
    .addOption(yesOption())
    .addHelpText("after", ROTATE_EXAMPLES)
    .action(rotate);
}

/** @param options `grace` is how long the former secret stays valid, in milliseconds. */
async function rotate(id: string, options: LastingOptions & { grace: number }): Promise<void> {
  let secret = "";
  const key = await useDatabase(options, "keys", async (database) => {
    if (options.grace < SHORT_GRACE_MS) await confirmChange(database, id, "rotate", options);
    return changeKey(database, id, "rotate", (current, now) => {
      const state = keyState(current, now.getTime());
      if (state !== "active") {
        const creation = onSameStore("npm run keys -- create");
        throw new Error(`the key is ${state}: \`${creation}\` creates a new one`);
      }
      const rotated = rotateApiKey(current, new Date(now.getTime() + options.grace), now);
      secret = rotated.key;
      return rotated.record;
    });
  });
  printSecret(secret, key, options);
  if (options.grace === 0 && !options.json) {
    process.stderr.write(`The former key ends within 30 seconds.\n`);
  }
}

async function confirmChange(
  database: StoreDatabase,
  id: string,
  change: keyof typeof CONSEQUENCES,
  { env, yes }: LastingOptions,
): Promise<void> {
  if (env === undefined || yes) return;
  const { name, plan } = await requireApiKey(database.orm, id);
  const key = `The key ${id} in ${env}: ${name}, plan ${plan}.`;
  await requireConfirmation(env, `${key}\n${CONSEQUENCES[change]}`);
}
