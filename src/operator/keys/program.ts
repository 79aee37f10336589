import type { Command } from "commander";
import { resetApiKey } from "../key-store/administration.ts";
import { createProgram } from "../command-line.ts";
import { yesOption } from "../confirmation.ts";
import { storeCommand, useDatabase } from "../database/open.ts";
import { defineUsage } from "../usage/usage.ts";
import { defineAudit } from "./audit.ts";
import { changeKey } from "../key-store/change-key.ts";
import { defineBans } from "./bans.ts";
import { confirmChange, type LastingOptions } from "./confirm-change.ts";
import { defineCreate } from "./create.ts";
import { defineFind } from "./find.ts";
import { defineList } from "./list.ts";
import { printKey } from "./print-keys.ts";
import { defineRevoke } from "./revoke.ts";
import { defineRotate } from "./rotate.ts";
import { defineShow } from "./show.ts";
import { defineUpdate } from "./update.ts";

const EXAMPLES = `
Examples:
  $ npm run keys -- create --plan free --name "Pet shop"
  $ npm run keys -- list
  $ npm run keys -- update key_abc --plan pro
  $ npm run keys -- revoke key_abc --env production
  $ npm run -s keys -- list --json | jq -r .[].id

The commands act on the local store, even while the service runs. With --env they act on a deployed
environment's database. Changes take effect within 30 seconds. Each command has its own --help.`;

/** Defines the command line of `npm run keys`. */
export function keysProgram(): Command {
  const program = createProgram(
    "npm run keys --",
    "Manage the API keys of the service.",
  ).addHelpText("after", EXAMPLES);

  defineCreate(storeCommand(program, "create"));
  defineList(storeCommand(program, "list"));

  defineShow(storeCommand(program, "show <id>"));
  defineFind(storeCommand(program, "find"));
  defineUpdate(storeCommand(program, "update <id>"));
  defineRotate(storeCommand(program, "rotate <id>"));
  defineRevoke(storeCommand(program, "revoke <id>"));

  storeCommand(program, "reset <id>")
    .description("empty both windows of a key, lift its ban and forget earlier ones")
    .addOption(yesOption())
    .action(async (id: string, options: LastingOptions) => {
      const key = await useDatabase(options, "keys", async (database) => {
        await confirmChange(database, id, "reset", options);
        return changeKey(database, id, "reset", resetApiKey);
      });
      printKey(key, { json: options.json, title: "The key's windows and ban are reset." });
    });

  defineAudit(storeCommand(program, "audit [id]"));
  defineBans(storeCommand(program, "bans [id]"));
  defineUsage(storeCommand(program, "usage [id]"));
  return program;
}
