import type { Command } from "commander";
import { describeDetails, type KeyChange, listKeyChanges } from "../key-store/audit-trail.ts";
import { parseTime } from "../arguments.ts";
import { type StoreCommandOptions, useDatabase } from "../database/open.ts";
import { limitOption, printNewest } from "./print-newest.ts";

const DETAILS = `
Examples:
  $ npm run keys -- audit
  $ npm run keys -- audit key_abc --since 2026-11-01
  $ npm run -s keys -- audit --limit 1000 --json

A change and its entry are stored in one transaction. Entries cannot be altered or deleted. The actor
is the value of the environment variable STORE_ORDERS_ACTOR. If it is not set, the actor is the
operator's account and machine.`;

interface AuditOptions extends StoreCommandOptions {
  readonly since?: Date;
  readonly limit: number;
}

/** Adds the options and the action of `keys audit`, which prints the audit trail. */
export function defineAudit(command: Command): void {
  command
    .description("show who changed which key, when and how, the newest first")
    .option("--since <time>", "only changes since this time, in ISO 8601", parseTime)
    .addOption(limitOption("changes"))
    .addHelpText("after", DETAILS)
    .action(audit);
}

async function audit(keyId: string | undefined, options: AuditOptions): Promise<void> {
  const { since, limit } = options;
  const changes = await useDatabase(options, "keys", ({ orm }) =>
    listKeyChanges(orm, { keyId, since, limit }),
  );
  const none = "No such changes are recorded.";
  printNewest(changes, options, {
    json: toJson,
    row: toRow,
    none,
    cut: ["actor"],
    below: "details",
  });
}

function toJson({ at, actor, action, keyId, details }: KeyChange) {
  return { at: at.toISOString(), actor, action, keyId, details };
}

function toRow({ at, actor, action, keyId, details }: KeyChange) {
  return {
    at,
    actor,
    action,
    key: keyId,
    details: describeDetails(details),
  };
}
