import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type Command, Option } from "commander";
import { eq, inArray, sql, type SQLWrapper } from "drizzle-orm";
import { apiKeys, formerKeyHashes, keyChanges } from "../../schema/keys.ts";
import { parseTime, type RemoteEnvironment } from "../arguments.ts";
import { errorMessage, printJson, UsageError } from "../command-line.ts";
import { requireConfirmation, yesOption } from "../confirmation.ts";
import { connect, findBookmark, restoreBookmark } from "../database/d1-api.ts";
import { databaseTime, type Orm, type StoreDatabase } from "../database/database.ts";
import type { StoreCommandOptions } from "../database/open.ts";
import { openRemoteDatabase } from "../database/remote.ts";
import { withInterruption } from "../interruption.ts";
import { currentActor } from "../key-store/change-key.ts";
import { PROJECT_ROOT } from "../wrangler.ts";

/** The key id in the audit record of the restoration itself. */
const ALL_KEYS = "*";
/** D1 Time Travel keeps a database's states for this long on the paid plan. */
const KEPT_MS = 30 * 86_400_000;

const ABOUT_RESTORE = `
Examples:
  $ npm run keys -- restore --env production --at 2026-11-20T08:30:00Z
  $ npm run keys -- restore --env production --bookmark 00000085-0000024c-...

The command takes the keys database back to an earlier state with D1 Time Travel. Keys that were created
since are gone; plans, limits, names and expiries are as they were. Revocations and rotations since are
kept: no secret that had ended is valid again. Limiters keep their counts and bans. If the command is
interrupted, run the same command again. To undo a restoration, restore the bookmark that it prints.
The orders have no such command: use \`npx wrangler d1 time-travel\`.`;

interface RestoreOptions extends StoreCommandOptions {
  readonly at?: Date;
  readonly bookmark?: string;
  readonly yes: boolean;
}

/** What a restoration must not undo. Saved before it begins, because it undoes the database. */
interface Saved {
  /** The bookmark of the state before the restoration. */
  readonly before: string;
  readonly keys: readonly SavedKey[];
}

type SavedKey = Pick<
  typeof apiKeys.$inferSelect,
  "id" | "hash" | "lastFour" | "resets" | "revision"
> & {
  readonly revokedAt: number | null;
  readonly former: readonly (Omit<typeof formerKeyHashes.$inferSelect, "endsAt"> & {
    endsAt: number;
  })[];
};

/** Adds the options and the action of `keys restore`. */
export function defineRestore(command: Command): void {
  command
    .description("take the keys of an environment back to an earlier time, but keep revocations")
    .option("--at <time>", "time within the last 30 days; a date means its start in UTC", parseTime)
    .addOption(new Option("--bookmark <bookmark>", "bookmark of the state").conflicts("at"))
    .addOption(yesOption())
    .addHelpText("after", ABOUT_RESTORE)
    .action(restore);
}

async function restore(options: RestoreOptions): Promise<void> {
  const { env, at, yes, json } = options;
  if (env === undefined) {
    throw new UsageError("name the environment with --env: a local store has no Time Travel");
  }
  if (at === undefined && options.bookmark === undefined) {
    throw new UsageError("name the state: --at TIME or --bookmark BOOKMARK");
  }
  const agoMs = at === undefined ? 0 : Date.now() - at.getTime();
  if (agoMs < 0 || agoMs > KEPT_MS) {
    throw new UsageError("--at: name a time in the past, within the last 30 days");
  }
  const actor = currentActor();
  const file = join(PROJECT_ROOT, ".wrangler", `restore-${env}-keys.json`);
  const report = await withInterruption("anything was restored", async (signal) => {
    const connection = await connect({ env, name: "keys" });
    const bookmark = options.bookmark ?? (await findBookmark(connection, at));
    if (!yes) {
      const consequence = `This takes the keys of ${env} back to ${bookmark}. All changes since are undone, except revocations and rotations.`;
      await requireConfirmation(env, consequence);
    }
    const database = await openRemoteDatabase({ env, name: "keys" });
    const saved = await save(file, await findBookmark(connection), database.orm);
    signal.throwIfAborted();
    try {
      await restoreBookmark(connection, bookmark);
      const kept = await keepEnds(database, saved, actor, bookmark);
      await rm(file);
      return { bookmark, before: saved.before, kept };
    } catch (cause) {
      throw new Error(
        `${errorMessage(cause)}. Keys that were revoked since may be valid again, until you run the same command again`,
        { cause },
      );
    }
  });
  if (json) return printJson(report);
  process.stdout.write(
    `The keys of ${env} are back at ${report.bookmark}.\n` +
      `Kept revoked or rotated: ${report.kept.join(", ") || "no key"}.\nTo undo this: ${undoLine(env, report.before)}\n`,
  );
}

function undoLine(env: RemoteEnvironment, bookmark: string): string {
  return `npm run keys -- restore --env ${env} --bookmark ${bookmark}`;
}

/** Saves the keys in a file, beside those that an interrupted restoration saved. */
async function save(file: string, bookmark: string, orm: Orm): Promise<Saved> {
  const text = await readFile(file, "utf8").catch(() => `{"before":"${bookmark}","keys":[]}`);
  const earlier = JSON.parse(text) as Saved;
  const rows = await orm.select().from(formerKeyHashes);
  const former = Map.groupBy(rows, ({ keyId }) => keyId);
  const keys = (await orm.select().from(apiKeys)).map((key): SavedKey => {
    const { id, hash, lastFour, resets, revision, revokedAt } = key;
    const ends = (former.get(id) ?? []).map((one) => ({ ...one, endsAt: one.endsAt.getTime() }));
    return {
      id,
      hash,
      lastFour,
      resets,
      revision,
      revokedAt: revokedAt?.getTime() ?? null,
      former: ends,
    };
  });
  const merged = keys.map((key) => {
    const other = earlier.keys.find(({ id }) => id === key.id) ?? key;
    // The interrupted restoration may have undone what it saved.
    const newer = other.revision >= key.revision ? other : key;
    return { ...newer, revokedAt: key.revokedAt ?? other.revokedAt };
  });
  const known = new Set(keys.map(({ id }) => id));
  const all = [...merged, ...earlier.keys.filter(({ id }) => !known.has(id))];
  const saved = { before: earlier.before, keys: all };
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, JSON.stringify(saved), { mode: 0o600, flush: true });
  return saved;
}

/**
 * Ends the restored secrets that had ended before, and makes the limiters use the restored keys.
 *
 * - A limiter ignores a key whose revision is smaller than the last one it saw. So each key gets a
 *   larger revision.
 * - A limiter resets only if a key has more resets than the limiter has seen. So each key keeps at
 *   least the number of resets that it had before the restoration.
 *
 * @returns the ids of the keys that were revoked or rotated since.
 */
async function keepEnds(
  database: StoreDatabase,
  { before, keys }: Saved,
  actor: string,
  bookmark: string,
): Promise<string[]> {
  const { orm } = database;
  const at = await databaseTime(orm);
  const restored = new Map((await orm.select().from(apiKeys)).map((key) => [key.id, key]));
  const changed = keys.flatMap((saved) => {
    const key = restored.get(saved.id);
    if (key === undefined) return [];
    const isRevoked = saved.revokedAt !== null && key.revokedAt === null;
    return isRevoked || saved.hash !== key.hash ? [saved] : [];
  });
  const revision = keys.reduce((most, key) => Math.max(most, key.revision + 1), at.getTime());
  const existing = keys.filter(({ id }) => restored.has(id));
  const update = ({ id, hash, lastFour, revokedAt, former }: SavedKey): SQLWrapper[] => [
    orm
      .update(apiKeys)
      .set({ hash, lastFour, revokedAt: sql`ifnull(${apiKeys.revokedAt}, ${revokedAt})` })
      .where(eq(apiKeys.id, id)),
    orm.delete(formerKeyHashes).where(eq(formerKeyHashes.keyId, id)),
    ...former.map((one) =>
      orm.insert(formerKeyHashes).values({ ...one, endsAt: new Date(one.endsAt) }),
    ),
  ];
  const record = (keyId: string, details: typeof keyChanges.$inferInsert.details) =>
    orm.insert(keyChanges).values({ at, actor, action: "restore", keyId, details });
  const resets = JSON.stringify(Object.fromEntries(existing.map((key) => [key.id, key.resets])));
  const wereReset = existing.filter((key) => key.resets > 0).map(({ id }) => id);
  const ids = sql`(SELECT value FROM json_each(${JSON.stringify(wereReset)}))`;
  await database.transaction([
    orm.update(apiKeys).set({ revision }),
    orm
      .update(apiKeys)
      .set({ resets: sql`max(${apiKeys.resets}, json_extract(${resets}, '$.' || ${apiKeys.id}))` })
      .where(inArray(apiKeys.id, ids)),
    record(ALL_KEYS, { bookmark: { from: before, to: bookmark } }),
    ...changed.flatMap(update),
  ]);
  return changed.map(({ id }) => id);
}
