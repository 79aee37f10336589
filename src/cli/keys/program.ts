import type { Command } from "commander";
import {
  findApiKey,
  listApiKeys,
  resetApiKey,
  revokeApiKey,
} from "../../api-keys/administration.ts";
import { createProgram } from "../command-line.ts";
import { storeCommand, type StoreCommandOptions, useDatabase } from "../database/open.ts";
import { defineCreate } from "./create.ts";
import { printKey, printKeys } from "./key-record.ts";
import { requireKey } from "./require-key.ts";
import { defineUpdate } from "./update.ts";

const EXAMPLES = `
Examples:
  $ npm run keys -- create --plan free --name "Pet shop"
  $ npm run keys -- list
  $ npm run keys -- update key_abc --plan pro
  $ npm run keys -- revoke key_abc --env production
  $ npm run -s keys -- list --json | jq -r .[].id

They act on the local store, whether the service runs on it or not, or with --env on the database of
a deployed environment. Changes take effect within 30 seconds. Each command has a --help of its own.`;

/** The command line of `npm run keys`. */
export function keysProgram(): Command {
  const program = createProgram(
    "npm run keys --",
    "Manage the API keys of the service.",
  ).addHelpText("after", EXAMPLES);

  defineCreate(storeCommand(program, "create"));

  storeCommand(program, "list")
    .description("show all keys, the oldest first")
    .action(async (options: StoreCommandOptions) => {
      printKeys(await useDatabase(options, ({ orm }) => listApiKeys(orm)), options);
    });

  storeCommand(program, "show <id>")
    .description("show one key")
    .action(async (id: string, options: StoreCommandOptions) => {
      const record = await useDatabase(options, ({ orm }) => findApiKey(orm, id));
      printKey(requireKey(record, id), options);
    });

  defineUpdate(storeCommand(program, "update <id>"));

  storeCommand(program, "revoke <id>")
    .description("end a key for good")
    .action(async (id: string, options: StoreCommandOptions) => {
      const record = await useDatabase(options, ({ orm }) => revokeApiKey(orm, id, new Date()));
      printKey(requireKey(record, id), { json: options.json, title: "The key is revoked." });
    });

  storeCommand(program, "reset <id>")
    .description("empty both windows of a key, lift its ban and forget earlier ones")
    .action(async (id: string, options: StoreCommandOptions) => {
      const record = await useDatabase(options, ({ orm }) => resetApiKey(orm, id));
      printKey(requireKey(record, id), {
        json: options.json,
        title: "The key's windows and ban are reset.",
      });
    });
  return program;
}
