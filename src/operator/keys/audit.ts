import type { Command } from "commander";
import { Table } from "console-table-printer";
import { describeDetails, type KeyChange, listKeyChanges } from "../key-store/audit-trail.ts";
import { printJson } from "../command-line.ts";
import { type StoreCommandOptions, useDatabase } from "../database/open.ts";
import { parseCount, parseTime } from "../arguments.ts";

const DEFAULT_LIMIT = 100;

const EXAMPLES = `
Examples:
  $ npm run keys -- audit
  $ npm run keys -- audit key_abc --since 2026-11-01
  $ npm run -s keys -- audit --limit 1000 --json

Every change of a key is recorded with it, and no record is ever changed or deleted. Who made it is
what the environment variable STORE_ORDERS_ACTOR said, or else the account and the machine.`;

interface AuditOptions extends StoreCommandOptions {
  readonly since?: Date;
  readonly limit: number;
}

/** Completes the command `keys audit`. */
export function defineAudit(command: Command): void {
  command
    .description("show who changed which key, when and how, the newest first")
    .option("--since <time>", "only changes from then on, in ISO 8601", parseTime)
    .option("--limit <n>", "how many changes at the most", parseCount, DEFAULT_LIMIT)
    .addHelpText("after", EXAMPLES)
    .action(audit);
}

async function audit(keyId: string | undefined, options: AuditOptions): Promise<void> {
  const { since, limit } = options;
  const changes = await useDatabase(options, "keys", ({ orm }) =>
    listKeyChanges(orm, { keyId, since, limit }),
  );
  if (options.json) return printJson(changes.map(toJson));
  if (changes.length === 0) return void process.stdout.write("No such changes are recorded.\n");
  process.stdout.write(`${toTable(changes).render()}\n`);
  if (changes.length === limit) {
    process.stdout.write(`The newest ${limit}; --limit N shows more.\n`);
  }
}

function toJson({ at, actor, action, keyId, details }: KeyChange): object {
  return { at: at.toISOString(), actor, action, keyId, details };
}

function toTable(changes: readonly KeyChange[]): Table {
  const columns = ["at", "actor", "action", "key", "details"];
  const table = new Table({
    shouldDisableColors: true,
    columns: columns.map((name) => ({ name, alignment: "left" })),
  });
  for (const { at, actor, action, keyId, details } of changes) {
    const row = { at: at.toISOString(), actor, action, key: keyId };
    table.addRow({ ...row, details: describeDetails(details) });
  }
  return table;
}
