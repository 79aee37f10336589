import type { Command } from "commander";
import { Table } from "console-table-printer";
import { type KeyBan, listKeyBans } from "../key-store/key-bans.ts";
import { printJson } from "../command-line.ts";
import { type StoreCommandOptions, useDatabase } from "../database/open.ts";
import { parseCount } from "../arguments.ts";

const DEFAULT_LIMIT = 100;

const DETAILS = `
Examples:
  $ npm run keys -- bans
  $ npm run keys -- bans key_abc
  $ npm run -s keys -- bans --in-force --json | jq -r .[].keyId

A ban shows here as soon as it happens. The number counts the bans in a row, and each is twice as long
as the one before. \`npm run keys -- reset ID\` lifts a ban. With BAN_MODE=log nobody is banned: the log
tells who would have been.`;

interface BansOptions extends StoreCommandOptions {
  readonly inForce: boolean;
  readonly limit: number;
}

/** Completes the command `keys bans`. */
export function defineBans(command: Command): void {
  command
    .description("show the bans of all keys, or of one, the newest first")
    .option("--in-force", "only bans that have neither ended nor been lifted", false)
    .option("--limit <n>", "how many bans at most", parseCount, DEFAULT_LIMIT)
    .addHelpText("after", DETAILS)
    .action(bans);
}

async function bans(keyId: string | undefined, options: BansOptions): Promise<void> {
  const now = new Date();
  const { inForce, limit } = options;
  const inForceAt = inForce ? now : undefined;
  const found = await useDatabase(options, "keys", ({ orm }) =>
    listKeyBans(orm, { keyId, inForceAt, limit }),
  );
  if (options.json) return printJson(found.map((ban) => toJson(ban, now)));
  if (found.length === 0) return void process.stdout.write("No such bans are recorded.\n");
  process.stdout.write(`${toTable(found, now).render()}\n`);
  if (found.length === limit) {
    process.stdout.write(`The newest ${limit}; --limit N shows more.\n`);
  }
}

function toJson(ban: KeyBan, now: Date): object {
  const { keyId, name, number, beganAt, endsAt, liftedAt } = ban;
  return {
    keyId,
    name,
    number,
    beganAt: beganAt.toISOString(),
    until: endsAt.toISOString(),
    liftedAt: liftedAt?.toISOString() ?? null,
    state: banState(ban, now),
  };
}

function toTable(found: readonly KeyBan[], now: Date): Table {
  const columns = ["key", "name", "number", "began", "until", "state"];
  const table = new Table({
    shouldDisableColors: true,
    columns: columns.map((name) => ({
      name,
      alignment: name === "number" ? "right" : "left",
    })),
  });
  for (const ban of found) {
    const { keyId, name, number, beganAt, endsAt, liftedAt } = ban;
    table.addRow({
      key: keyId,
      name: name ?? "",
      number,
      began: beganAt.toISOString(),
      until: endsAt.toISOString(),
      state: liftedAt === null ? banState(ban, now) : `lifted at ${liftedAt.toISOString()}`,
    });
  }
  return table;
}

function banState({ endsAt, liftedAt }: KeyBan, now: Date): "in force" | "ended" | "lifted" {
  if (liftedAt !== null) return "lifted";
  return endsAt > now ? "in force" : "ended";
}
