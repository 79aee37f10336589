import { and, desc, eq, gte } from "drizzle-orm";
import { keyState } from "../../rules/keys/api-key.ts";
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

/** Which changes to take back. */
type Selection = Readonly<{ since: Date; id: string | undefined; actor: string | undefined }>;
type UndoOptions = StoreCommandOptions & Omit<Selection, "id"> & { readonly yes: boolean };

type KeyChange = typeof keyChanges.$inferSelect;

/** The settings of a key that an update can change, as the audit trail writes them. */
type SettingsInJson = Pick<KeyDetails, "name" | "plan" | "perMinute" | "perDay"> &
  Record<"expiresAt", string | null>;

/** A key before and after its changes are taken back. */
type Undoing = Readonly<Record<"before" | "after", KeyDetails>>;

/** Takes back the changes of keys since a time, in one transaction, and records that. */
export async function undo(id: string | undefined, options: UndoOptions): Promise<void> {
  const { json, since, actor } = options;
  const selection = { since, id, actor };
  const again = "it was known whether the changes were taken back: run the same command again";
  const undone = await withInterruption(again, (signal) =>
    useDatabase(options, "keys", async (database) => {
      if (id !== undefined) await requireApiKey(database.orm, id);
      const planned = await plan(database.orm, selection);
      if (planned.length > 0) {
        await requireConfirmation(options, `In ${options.env}, this ${describe(planned)}.`);
      }
      return unlessAborted(signal, () => takeBack(database, selection, currentActor()));
    }),
  );
  if (json) return printJson(idsOf(undone));
  if (undone.length === 0) return void process.stderr.write("There was nothing to take back.\n");
  printData(`Done: this ${describe(undone)}.\n`);
}

async function takeBack(database: StoreDatabase, selection: Selection, actor: string) {
  const attempt = async () => {
    const at = await databaseTime(database.orm);
    const undone = await plan(database.orm, selection);
    const operation = { action: "undo", actor, at } as const;
    const statements = undone.flatMap(({ before, after }) => {
      const next = { ...after, revision: before.revision + 1 };
      return change(database.orm, before, next, operation);
    });
    await database.transaction(statements);
    return undone;
  };
  return unlessOvertaken(attempt).catch((cause: Error) => {
    throw new Error(`${cause.message}. Run the same command again`, { cause });
  });
}

/** Returns the keys that taking back the selected changes would change now. */
async function plan(orm: Orm, { since, id, actor }: Selection): Promise<Undoing[]> {
  const now = await databaseTime(orm);
  const ofKey = id === undefined ? undefined : eq(keyChanges.keyId, id);
  const selected = orm
    .select()
    .from(keyChanges)
    .where(and(gte(keyChanges.at, since), ofKey));
  const changes = await selected.orderBy(desc(keyChanges.id));
  const byKey = Map.groupBy(changes, ({ keyId }) => keyId);
  const isTaken = (one: KeyChange) => actor === undefined || one.actor === actor;
  const keys = await listApiKeys(orm, {}, now);
  return keys.flatMap((before) => {
    const after = withoutChanges(before, byKey.get(before.id) ?? [], isTaken, now);
    return isSame(before, after) ? [] : [{ before, after }];
  });
}

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
  const current: Record<string, unknown> = JSON.parse(JSON.stringify(settingsOf(key)));
  const settings = { ...current };
  for (const fields of CHOICES) {
    let after = fields.map((field) => current[field]);
    /** The state that an earlier undoing went back to. What it took back is not looked at again. */
    let undone: string | undefined;
    for (const one of changes) {
      const before = fields.map((field, index) => {
        const detail = one.details[field];
        return detail === undefined ? after[index] : detail.from;
      });
      const isChoice = ["update", "undo"].includes(one.action);
      if (!isChoice || JSON.stringify(before) === JSON.stringify(after)) continue;
      if (undone !== undefined) {
        if (JSON.stringify(before) === undone) undone = undefined;
      } else if (one.action === "undo") undone = JSON.stringify(after);
      else if (isTaken(one)) fields.forEach((field, index) => (settings[field] = before[index]));
      else break;
      after = before;
    }
  }
  const { name, plan: formerPlan, perMinute, perDay, expiresAt } = settings as SettingsInJson;
  const limits = formerPlan === "enterprise" ? { perMinute, perDay } : NO_LIMITS;
  const isExpired = keyState({ ...key, revokedAt: null }, now.getTime()) === "expired";
  const formerEnd = expiresAt === null ? null : new Date(expiresAt);
  const ends = isExpired ? key.expiresAt : formerEnd;
  const before = { ...key, name, plan: formerPlan, ...limits, expiresAt: ends };
  return changes.some((one) => one.action === "create" && isTaken(one))
    ? revokeApiKey(before, now)
    : before;
}

/** Returns the ids of the keys whose settings come back, and of those that were created since. */
function idsOf(undone: readonly Undoing[]) {
  const isRestored = ({ before, after }: Undoing) => before.revokedAt === after.revokedAt;
  const ids = (some: readonly Undoing[]) => some.map(({ after }) => after.id);
  const restored = ids(undone.filter(isRestored));
  return { restored, revoked: ids(undone.filter((each) => !isRestored(each))) };
}

function describe(undone: readonly Undoing[]): string {
  const { restored, revoked } = idsOf(undone);
  const parts = [
    restored.length > 0 && `gives back the former settings of ${restored.join(", ")}`,
    revoked.length > 0 && `revokes, because they were created since: ${revoked.join(", ")}`,
  ];
  return parts.filter(Boolean).join(", and ");
}
