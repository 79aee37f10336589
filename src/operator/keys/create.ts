import type { Command } from "commander";
import { createApiKey } from "../key-store/administration.ts";
import { toKeyJson } from "../key-store/key-json.ts";
import { type Limits, type Plan, PLAN_LIMITS } from "../../worker/limits/plans.ts";
import { printJson, UsageError } from "../command-line.ts";
import { type StoreCommandOptions, useDatabase } from "../database/open.ts";
import { limitOptions, parseName, parseTime, planOption } from "../arguments.ts";
import { addKeys } from "../key-store/change-key.ts";
import { refusePast } from "./expiry.ts";
import { printKey } from "./print-keys.ts";

const EXAMPLES = `
Examples:
  $ npm run keys -- create --plan free --name "Pet shop"
  $ npm run keys -- create --plan pro --name Trial --expires 2027-01-31
  $ npm run keys -- create --plan enterprise --name Chain --per-minute 5000 --per-day 500000

Plans, in requests per minute and per day:
${Object.entries(PLAN_LIMITS)
  .map(([plan, { perMinute, perDay }]) => `  ${plan.padEnd(12)}${perMinute} and ${perDay}`)
  .join("\n")}
  enterprise  its own: --per-minute and --per-day are needed

The key is shown once and stored only as a hash: nobody can look it up later.`;

interface CreateOptions extends StoreCommandOptions {
  readonly plan: Plan;
  readonly name: string;
  readonly perMinute?: number;
  readonly perDay?: number;
  readonly expires?: Date;
}

/** Completes the command `keys create`. */
export function defineCreate(command: Command): void {
  command.description("make a new API key").addOption(planOption().makeOptionMandatory());
  command.requiredOption("--name <text>", "whose key it is, up to 100 characters", parseName);
  for (const option of limitOptions()) command.addOption(option);
  command
    .option("--expires <time>", "when the key ends, in ISO 8601 (default: never)", parseTime)
    .addHelpText("after", EXAMPLES)
    .action(create);
}

async function create(options: CreateOptions): Promise<void> {
  const limits = ownLimits(options);
  const now = new Date();
  const expiresAt = options.expires ?? null;
  refusePast(expiresAt, now);
  const created = createApiKey({ name: options.name, plan: options.plan, limits, expiresAt }, now);
  const { key, record } = created;
  await useDatabase(options, "keys", (database) => addKeys(database, [record]));
  if (options.json) {
    const { id, ...rest } = toKeyJson(record, now);
    return printJson({ id, key, ...rest });
  }
  process.stdout.write(`${key}\n\nKeep this key now: it is not shown again.\n`);
  printKey(record, { json: false });
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
