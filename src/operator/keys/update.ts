import type { Command } from "commander";
import type { ApiKey } from "../../worker/api-keys/api-key.ts";
import { refusePast } from "../key-store/administration.ts";
import type { Plan } from "../../worker/limit-rules/plans.ts";
import { UsageError } from "../command-line.ts";
import { type StoreCommandOptions, useDatabase } from "../database/open.ts";
import { limitOptions, parseName, parseTimeOrNever, planOption } from "../arguments.ts";
import { changeKey } from "../key-store/change-key.ts";
import { printKey } from "./print-keys.ts";

const EXAMPLES = `
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

/** Adds the options and the action of `keys update`, which changes the settings of a key. */
export function defineUpdate(command: Command): void {
  command.description("change a key's plan, limits, name or expiry").addOption(planOption());
  for (const option of limitOptions()) command.addOption(option);
  command
    .option("--name <text>", "whose key it is, up to 100 characters", parseName)
    .option("--expires <time>", "when the key expires, in ISO 8601, or never", parseTimeOrNever)
    .addHelpText("after", EXAMPLES)
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

/** Returns the key's plan after the change, with the key's own limits. */
function nextLimits(
  current: ApiKey,
  options: UpdateOptions,
): Pick<ApiKey, "plan" | "perMinute" | "perDay"> {
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
