import type { Command } from "commander";
import { createProgram } from "../command-line.ts";
import { storeCommand } from "../database/open.ts";
import { defineUsage } from "../usage/usage.ts";
import { defineCreate, defineReset, defineRevoke, defineRotate, defineUpdate } from "./change.ts";
import { defineRestore } from "./restore.ts";
import { defineAudit, defineList, defineShow } from "./show.ts";

const EXAMPLES = `
Examples:
  $ npm run keys -- create --plan free --name "Pet shop"
  $ npm run keys -- revoke key_abc --env production
  $ npm run -s keys -- list --json | jq -r .[].id

The commands use the local store, even while the service runs, or with --env the database of a deployed
environment. Changes take effect within 30 seconds. To see the options of a command, add --help.`;

/** Defines the command line of `npm run keys`. */
export function keysProgram(): Command {
  const program = createProgram(
    "npm run keys --",
    "Manage the API keys of the service.",
  ).addHelpText("after", EXAMPLES);

  defineCreate(storeCommand(program, "create"));
  defineList(storeCommand(program, "list"));
  defineShow(storeCommand(program, "show <id>"));
  defineUpdate(storeCommand(program, "update <id>"));
  defineRotate(storeCommand(program, "rotate <id>"));
  defineRevoke(storeCommand(program, "revoke <id>"));
  defineReset(storeCommand(program, "reset <id>"));
  defineAudit(storeCommand(program, "audit [id]"));
  defineUsage(storeCommand(program, "usage [id]"));
  defineRestore(storeCommand(program, "restore"));
  return program;
}
