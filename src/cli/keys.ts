import type { Command } from "commander";
import { findApiKey, listApiKeys, resetApiKey, revokeApiKey } from "../api-keys/administration.ts";
import { createProgram, runProgram } from "./command-line.ts";
import { type StoreOptions, useDatabase, withStoreOptions } from "./database/open.ts";
import { defineCreate } from "./keys/create.ts";
import { printKey, printKeys } from "./keys/key-record.ts";
import { requireKey } from "./keys/require-key.ts";
import { defineUpdate } from "./keys/update.ts";

const EXAMPLES = `
Examples:
  $ npm run keys -- create --plan free --name "Pet shop"
  $ npm run keys -- list
  $ npm run keys -- update key_abc --plan pro
  $ npm run keys -- revoke key_abc --env production
  $ npm run -s keys -- list --json | jq -r .[].id

They act on the local store, whether the service runs on it or not, or with --env on the database of
a deployed environment. Changes take effect within 30 seconds. Each command has a --help of its own.`;

interface KeyOptions extends StoreOptions {
  readonly json: boolean;
}

const program = createProgram("npm run keys --", "Manage the API keys of the service.").addHelpText(
  "after",
  EXAMPLES,
);

function subcommand(usage: string): Command {
  return withStoreOptions(program.command(usage)).option(
    "--json",
    "print one JSON value and nothing else",
    false,
  );
}

defineCreate(subcommand("create"));

subcommand("list")
  .description("show all keys, the oldest first")
  .action(async (options: KeyOptions) => {
    printKeys(await useDatabase(options, ({ orm }) => listApiKeys(orm)), options);
  });

subcommand("show <id>")
  .description("show one key")
  .action(async (id: string, options: KeyOptions) => {
    const record = await useDatabase(options, ({ orm }) => findApiKey(orm, id));
    printKey(requireKey(record, id), options);
  });

defineUpdate(subcommand("update <id>"));

subcommand("revoke <id>")
  .description("end a key for good")
  .action(async (id: string, options: KeyOptions) => {
    const record = await useDatabase(options, ({ orm }) => revokeApiKey(orm, id, new Date()));
    printKey(requireKey(record, id), { json: options.json, title: "The key is revoked." });
  });

subcommand("reset <id>")
  .description("empty both windows of a key, lift its ban and forget earlier ones")
  .action(async (id: string, options: KeyOptions) => {
    const record = await useDatabase(options, ({ orm }) => resetApiKey(orm, id));
    printKey(requireKey(record, id), {
      json: options.json,
      title: "The key's windows and ban are reset.",
    });
  });

await runProgram(program);
