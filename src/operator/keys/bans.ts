import type { Command } from "commander";
import { type KeyBan, listKeyBans } from "../key-store/key-bans.ts";
import { type StoreCommandOptions, useDatabase } from "../database/open.ts";
import { limitOption, printNewest } from "./print-newest.ts";
import { textCell } from "../terminal-text.ts";

const DETAILS = `
Examples:
  $ npm run keys -- bans
  $ npm run keys -- bans key_abc
  $ npm run -s keys -- bans --in-force --json | jq -r .[].keyId

A ban is listed as soon as it begins. "number" is the position of the ban in a series of bans. Each ban
of a series lasts twice as long as the previous ban. \`npm run keys -- reset ID\` lifts a ban. With
BAN_MODE=log the service bans no key, and logs which keys it would have banned.`;

interface BansOptions extends StoreCommandOptions {
  readonly inForce: boolean;
  readonly limit: number;
}

/** Adds the options and the action of `keys bans`, which prints past and present bans. */
export function defineBans(command: Command): void {
  command
    .description("show the bans of all keys, or of one, the newest first")
    .option("--in-force", "only bans that have neither ended nor been lifted", false)
    .addOption(limitOption("bans"))
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
  printNewest(found, options, {
    json: (ban) => toJson(ban, now),
    row: (ban) => toRow(ban, now),
    none: "No such bans are recorded.",
    cut: ["name"],
    optional: ["until", "number", "lifted", "began"],
  });
}

function toJson(ban: KeyBan, now: Date) {
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

function toRow(ban: KeyBan, now: Date) {
  const { keyId: key, name, number, beganAt: began, endsAt: until, liftedAt: lifted } = ban;
  const state = banState(ban, now);
  return {
    key,
    name,
    number,
    state: textCell(state, state === "in force"),
    began,
    until,
    lifted,
  };
}

function banState({ endsAt, liftedAt }: KeyBan, now: Date): "in force" | "ended" | "lifted" {
  if (liftedAt !== null) return "lifted";
  return endsAt > now ? "in force" : "ended";
}
