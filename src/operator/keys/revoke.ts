import type { Command } from "commander";
import { requireConfirmation, yesOption } from "../confirmation.ts";
import type { StoreDatabase } from "../database/database.ts";
import { type StoreCommandOptions, useDatabase } from "../database/open.ts";
import { resetApiKey, revokeApiKey } from "../key-store/administration.ts";
import { changeKey, requireApiKey } from "../key-store/change-key.ts";
import { printKey } from "./print-keys.ts";

const EXAMPLES = `
Examples:
  $ npm run keys -- revoke key_abc
  $ npm run keys -- revoke key_abc --env production          asks first
  $ npm run keys -- revoke key_abc --env production --yes    for scripts

A revoked key can never be used again. To end a key at a later time, use \`keys update --expires\`.`;

/** The options of a command that changes a key permanently. */
export interface LastingOptions extends StoreCommandOptions {
  /** True skips the confirmation. */
  readonly yes: boolean;
}

/** The text about the consequence of each change that cannot be undone. */
const CONSEQUENCES = {
  end: "This ends its present secret for good. Clients that send it are answered 401 afterwards.",
  reset: "This forgets the counts of both windows, its ban and its earlier bans for good.",
};

/** Adds the options and the action of `keys revoke`, which makes all secrets of a key invalid. */
export function defineRevoke(command: Command): void {
  command
    .description("make a key invalid permanently")
    .addOption(yesOption())
    .addHelpText("after", EXAMPLES)
    .action(async (id: string, options: LastingOptions) => {
      const key = await useDatabase(options, "keys", async (database) => {
        await confirmChange(database, id, "end", options);
        return changeKey(database, id, "revoke", revokeApiKey);
      });
      printKey(key, { json: options.json, title: "The key is revoked." });
    });
}

/** Adds the options and the action of `keys reset`, which empties the windows and lifts a ban. */
export function defineReset(command: Command): void {
  command
    .description("set both request counts of a key to 0, lift its ban and forget earlier bans")
    .addOption(yesOption())
    .action(async (id: string, options: LastingOptions) => {
      const key = await useDatabase(options, "keys", async (database) => {
        await confirmChange(database, id, "reset", options);
        return changeKey(database, id, "reset", resetApiKey);
      });
      printKey(key, { json: options.json, title: "The key's windows and ban are reset." });
    });
}

/**
 * Asks for confirmation before a change of a deployed key that cannot be undone. Does not ask if
 * the key is in a local store.
 *
 * @throws an Error for the operator if the operator does not confirm, if standard input is no
 *   terminal, or if no key has this id.
 */
export async function confirmChange(
  { orm }: StoreDatabase,
  id: string,
  change: keyof typeof CONSEQUENCES,
  { env, yes }: LastingOptions,
): Promise<void> {
  if (env === undefined || yes) return;
  const { name, plan } = await requireApiKey(orm, id);
  const key = `The key ${id} in ${env}: ${name}, plan ${plan}.`;
  await requireConfirmation(env, `${key}\n${CONSEQUENCES[change]}`);
}
