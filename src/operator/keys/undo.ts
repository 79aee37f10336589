import { and, desc, eq, gte } from "drizzle-orm";
import { keyChanges } from "../../schema/keys.ts";
import { databaseTime, type Orm, type StoreDatabase } from "../../store/database.ts";
import { change, isSame, unlessOvertaken } from "../../store/keys/change-key.ts";
import { listApiKeys, settingsOf } from "../../store/keys/find-keys.ts";
import { type KeyDetails, NO_LIMITS, revokeApiKey } from "../../store/keys/key-settings.ts";
import { printData, printJson } from "../command-line.ts";
import { requireConfirmation } from "../confirmation.ts";
import { type StoreCommandOptions, useDatabase } from "../database/open.ts";
import { unlessAborted, withInterruption } from "../interruption.ts";
import { currentActor } from "./actor.ts";
import { requireApiKey } from "./show.ts";

type UndoOptions = StoreCommandOptions & Readonly<{ since: Date; actor?: string; yes: boolean }>;
/** Which changes to take back. */
type Selection = Pick<UndoOptions, "since" | "actor"> & Readonly<{ id: string | undefined }>;

/** A key before and after its changes are taken back. */
type Undoing = Readonly<Record<"before" | "after", KeyDetails>>;

/** Takes back the changes of keys since a time, in one transaction, and records that. */
export async function undo(id: string | undefined, options: UndoOptions): Promise<void> {
  const selection = { ...options, id };
  const again = "it was known whether the changes were taken back: run the same command again";
  const undone = await withInterruption(again, (signal) =>
    useDatabase(options, "keys", async (database) => {
      if (id !== undefined) await requireApiKey(database.orm, id);
      const planned = await plan(database.orm, selection, await databaseTime(database.orm));
      if (planned.length > 0) {
        await requireConfirmation(options, `In ${options.env}, this ${describe(planned)}.`);
      }
      return unlessAborted(signal, () => takeBack(database, selection));
    }),
  );
  if (options.json) return printJson(idsOf(undone));
  if (undone.length === 0) return void process.stderr.write("There was nothing to take back.\n");
  printData(`Done: this ${describe(undone)}.\n`);
}

async function takeBack(database: StoreDatabase, selection: Selection) {
  const actor = currentActor();
  const attempt = async () => {
    const at = await databaseTime(database.orm);
    const undone = await plan(database.orm, selection, at);
    const statements = undone.flatMap(({ before, after }) => {
      const next = { ...after, revision: before.revision + 1 };
      return change(database.orm, before, next, { action: "undo", actor, at });
    });
    await database.transaction(statements);
    return undone;
  };
  return unlessOvertaken(attempt).catch((cause: Error) => {
    throw new Error(`${cause.message}. Run the same command again`, { cause });
  });
}

/** Returns the keys that taking back the selected changes would change at the time `now`. */
async function plan(orm: Orm, { since, id, actor }: Selection, now: Date): Promise<Undoing[]> {
  const ofKey = id === undefined ? undefined : eq(keyChanges.keyId, id);
  const isSince = and(gte(keyChanges.at, since), ofKey);
  const changes = await orm.select().from(keyChanges).where(isSince).orderBy(desc(keyChanges.id));
  const byKey = Map.groupBy(changes, ({ keyId }) => keyId);
  const isTaken = (one: KeyChange) => actor === undefined || one.actor === actor;
  const keys = await listApiKeys(orm, {}, now);
  return keys.flatMap((before) => {
    const after = withoutChanges(before, byKey.get(before.id) ?? [], isTaken, now);
    return isSame(before, after) ? [] : [{ before, after }];
  });
}

type KeyChange = typeof keyChanges.$inferSelect;

/** The settings that an update can change. A time is a text where the audit trail has it. */
type Settings = Pick<KeyDetails, "name" | "plan" | "perMinute" | "perDay"> &
  Record<"expiresAt", Date | string | null>;

/** The settings of which each is one choice: who chooses a plan chooses its limits. */
const CHOICES = [["name"], ["plan", "perMinute", "perDay"], ["expiresAt"]] as const;

/**
 * Returns a key as it was before some of its changes. A setting that another change has made since
 * stays, even if it made the same one. A key that they created is revoked. What they ended stays ended:
 * revoked, replaced and expired secrets.
 *
 * @param changes all changes of the key since a time, the newest first.
 */
function withoutChanges(
  key: KeyDetails,
  changes: readonly KeyChange[],
  isTaken: (change: KeyChange) => boolean,
  now: Date,
): KeyDetails {
  const settings: Record<string, unknown> = settingsOf(key);
  for (const fields of CHOICES) {
    let after = fields.map((field) => settings[field]);
    /** The state that an earlier undoing went back to. What it took back is not looked at again. */
    let undone: string | undefined;
    for (const one of changes) {
      const { action, details } = one;
      const before = fields.map((field, index) => {
        return details[field] === undefined ? after[index] : details[field].from;
      });
      const isChoice = action === "update" || action === "undo";
      if (!isChoice || JSON.stringify(before) === JSON.stringify(after)) continue;
      if (undone !== undefined) {
        if (JSON.stringify(before) === undone) undone = undefined;
      } else if (action === "undo") undone = JSON.stringify(after);
      else if (isTaken(one)) fields.forEach((field, index) => (settings[field] = before[index]));
      else break;
      after = before;
    }
  }
  const { name, plan: formerPlan, perMinute, perDay, expiresAt } = settings as Settings;
  const limits = formerPlan === "enterprise" ? { perMinute, perDay } : NO_LIMITS;
  const isExpired = key.expiresAt !== null && key.expiresAt <= now;
  const formerEnd = expiresAt === null ? null : new Date(expiresAt);
  const ends = isExpired ? key.expiresAt : formerEnd;
  const before = { ...key, name, plan: formerPlan, ...limits, expiresAt: ends };
  const isCreated = changes.some((one) => one.action === "create" && isTaken(one));
  return isCreated ? revokeApiKey(before, now) : before;
}

/** Returns the ids of the keys whose settings come back, and of those that were created since. */
function idsOf(undone: readonly Undoing[]) {
  const isRestored = ({ before, after }: Undoing) => before.revokedAt === after.revokedAt;
  const ids = (wanted: boolean) =>
    undone.filter((each) => isRestored(each) === wanted).map(({ after }) => after.id);
  return { restored: ids(true), revoked: ids(false) };
}

function describe(undone: readonly Undoing[]): string {
  const { restored, revoked } = idsOf(undone);
  const parts = [
    restored.length > 0 && `gives back the former settings of ${restored.join(", ")}`,
    revoked.length > 0 && `revokes, because they were created since: ${revoked.join(", ")}`,
  ];
  return parts.filter(Boolean).join(", and ");
}
