import { type Command, Option } from "commander";
import { keyState } from "../../rules/keys/api-key.ts";
import { durationParser } from "../arguments.ts";
import { onSameStore } from "../command-line.ts";
import { requireConfirmation, yesOption } from "../confirmation.ts";
import type { StoreDatabase } from "../database/database.ts";
import { type StoreCommandOptions, useDatabase } from "../database/open.ts";
import { resetApiKey, revokeApiKey, rotateApiKey } from "../key-store/administration.ts";
import { changeKey, requireApiKey } from "../key-store/change-key.ts";
import type { KeyDetails } from "../key-store/key-details.ts";
import { printKey, printSecret } from "./print-keys.ts";

const DEFAULT_GRACE = "24h";
const MAX_GRACE_DAYS = 90;
/** Rotating with a shorter grace period needs confirmation: clients must change their key soon. */
const SHORT_GRACE_MS = 3_600_000;
const parseGrace = durationParser(MAX_GRACE_DAYS);

const REVOKE_EXAMPLES = `
Examples:
  $ npm run keys -- revoke key_abc
  $ npm run keys -- revoke key_abc --env production          asks first
  $ npm run keys -- revoke key_abc --env production --yes    for scripts

A revoked key can never be used again. To end a key at a later time, use \`keys update --expires\`.`;

const ROTATE_EXAMPLES = `
Examples:
  $ npm run keys -- rotate key_abc                 the former key ends in ${DEFAULT_GRACE}
  $ npm run keys -- rotate key_abc --grace 7d
  $ npm run keys -- rotate key_abc --grace 0       the key has leaked: end it within 30 seconds

The former and the new key share one id, plan, limits, request counts and bans. Later changes apply to
both keys. If you rotate a key again during its grace, earlier former keys become invalid no later than
the key that was just replaced. The new key is shown once. With --env and a grace of less than an hour,
the command asks for confirmation.`;

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
        const create = onSameStore("npm run keys -- create");
        throw new Error(`the key is ${state}: \`${create}\` creates a new one`);
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
