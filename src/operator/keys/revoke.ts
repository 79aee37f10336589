import type { Command } from "commander";
import { yesOption } from "../confirmation.ts";
import { useDatabase } from "../database/open.ts";
import { revokeApiKey } from "../key-store/administration.ts";
import { changeKey } from "../key-store/change-key.ts";
import { confirmChange, type LastingOptions } from "./confirm-change.ts";
import { printKey } from "./print-keys.ts";

const EXAMPLES = `
Examples:
  $ npm run keys -- revoke key_abc
  $ npm run keys -- revoke key_abc --env production          asks first
  $ npm run keys -- revoke key_abc --env production --yes    for scripts

A revoked key cannot be used again. \`keys update --expires\` ends a key at a later time instead.`;

/** Completes the command `keys revoke`, which ends a key and all of its secrets. */
export function defineRevoke(command: Command): void {
  command
    .description("end a key for good")
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
