import { type Command, Option } from "commander";
import { listApiKeys, KEY_STATES_AND_BAN, type KeyStateOrBan } from "../key-store/key-details.ts";
import { isVerificationKey } from "../key-store/verification-key.ts";
import type { Plan } from "../../worker/limit-rules/plans.ts";
import { type StoreCommandOptions, useDatabase } from "../database/open.ts";
import { durationParser, planOption } from "../arguments.ts";
import { printKeys } from "./print-keys.ts";

const LONGEST_DAYS = 36_500;

const EXAMPLES = `
Examples:
  $ npm run keys -- list
  $ npm run keys -- list --plan pro --name zoo
  $ npm run keys -- list --expires-within 30d      keys to renew
  $ npm run keys -- list --state revoked --json

The command lists the keys that match all given filters. "ends in" shows the last four characters of
the key. For keys from before the store kept these characters, it shows "unknown" until they are
rotated. Times are in UTC. Keys that \`npm run verify\` made are listed only with --name verification.`;

const NO_KEYS = "There are no keys yet: `npm run keys -- create --help` shows how to create one.";

interface ListOptions extends StoreCommandOptions {
  readonly plan?: Plan;
  readonly state?: KeyStateOrBan;
  readonly name?: string;
  /** The time within which listed keys expire, in milliseconds. */
  readonly expiresWithin?: number;
}

/** Adds the options and the action of `keys list`, which prints keys without their secrets. */
export function defineList(command: Command): void {
  command
    .description("show all keys, or those that match the filters, the oldest first")
    .addOption(planOption())
    .addOption(new Option("--state <state>", "state of the key").choices(KEY_STATES_AND_BAN))
    .option("--name <text>", "part of the name, in upper or lower case")
    .option(
      "--expires-within <duration>",
      "usable keys that expire within this time, such as 12h or 30d",
      durationParser(LONGEST_DAYS),
    )
    .addHelpText("after", EXAMPLES)
    .action(list);
}

async function list({ json, expiresWithin, ...options }: ListOptions): Promise<void> {
  const { plan, state, name } = options;
  const now = new Date();
  const expiresUntil =
    expiresWithin === undefined ? undefined : new Date(now.getTime() + expiresWithin);
  const filter = { plan, state, name, expiresUntil };
  const found = await useDatabase(options, "keys", ({ orm }) => listApiKeys(orm, filter, now));
  const keys = name === undefined ? found.filter((key) => !isVerificationKey(key)) : found;
  const isFiltered = Object.values(filter).some((value) => value !== undefined);
  printKeys(keys, { json, none: isFiltered ? "No matching keys." : NO_KEYS });
}
