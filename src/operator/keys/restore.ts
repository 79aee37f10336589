import { existsSync } from "node:fs";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { eq, ne, type SQLWrapper } from "drizzle-orm";
import { apiKeys, formerKeyHashes, keyChanges } from "../../schema/keys.ts";
import type { RemoteEnvironment } from "../arguments.ts";
import { errorMessage, printJson, UsageError } from "../command-line.ts";
import { requireConfirmation } from "../confirmation.ts";
import { connect, findBookmark, restoreBookmark } from "../database/d1-api.ts";
import { databaseTime, type Orm, type StoreDatabase } from "../../store/database.ts";
import { openRemoteDatabase } from "../database/remote.ts";
import { withInterruption } from "../interruption.ts";
import { replaceFile } from "../replace-file.ts";
import { PROJECT_ROOT } from "../wrangler.ts";
import { currentActor } from "./actor.ts";

/** How long D1 Time Travel keeps a state on the paid plan. */
const KEPT_MS = 30 * 86_400_000;

interface RestoreOptions {
  readonly env: RemoteEnvironment;
  readonly json: boolean;
  readonly at?: Date;
  readonly bookmark?: string;
  readonly yes: boolean;
}

/** What a restoration must not undo. Saved before it begins, because it undoes the database. */
interface Saved {
  /** The bookmark of the state before the restoration. */
  readonly before: string;
  /** How many changes of keys were recorded. If there are fewer now, the keys were taken back. */
  readonly changes: number;
  readonly keys: readonly (typeof apiKeys.$inferSelect & {
    readonly former: readonly (typeof formerKeyHashes.$inferSelect)[];
  })[];
}

/** Restores the keys database of an environment, and ends again what had ended since. */
export async function restore(options: RestoreOptions): Promise<void> {
  const { env, at, yes, json } = options;
  if ((at ?? options.bookmark) === undefined) {
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
    const consequence = `This takes the keys of ${env} back to ${bookmark}. All changes since are undone, except revocations and rotations.`;
    if (!yes) await requireConfirmation(env, consequence);
    const database = await openRemoteDatabase({ env, name: "keys" });
    const saved = await save(file, await findBookmark(connection), database.orm);
    signal.throwIfAborted();
    try {
      await restoreBookmark(connection, bookmark);
      const kept = await keepEnds(database, saved, actor, bookmark);
      await rm(file);
      return { bookmark, before: saved.before, kept };
    } catch (cause) {
      const state = "Keys that were revoked since may be valid again";
      throw new Error(`${errorMessage(cause)}. ${state}: run the same command again`, { cause });
    }
  });
  if (json) return printJson(report);
  const undo = `npm run keys -- restore --env ${env} --bookmark ${report.before}`;
  process.stdout.write(
    `The keys of ${env} are back at ${report.bookmark}.\n` +
      `Kept revoked or rotated: ${report.kept.join(", ") || "no key"}.\nTo undo this: ${undo}\n`,
  );
}

/** Saves the keys in a file, beside those that an interrupted restoration saved. */
async function save(file: string, bookmark: string, orm: Orm): Promise<Saved> {
  const toTime = (name: string, value: unknown) =>
    name.endsWith("At") && typeof value === "string" ? new Date(value) : value;
  const earlier: Saved = existsSync(file)
    ? JSON.parse(await readFile(file, "utf8"), toTime)
    : { before: bookmark, changes: 0, keys: [] };
  const former = Map.groupBy(await orm.select().from(formerKeyHashes), ({ keyId }) => keyId);
  const keys = new Map(earlier.keys.map((key) => [key.id, key]));
  for (const stored of await orm.select().from(apiKeys)) {
    const key = { ...stored, former: former.get(stored.id) ?? [] };
    // The interrupted restoration may have undone what it saved.
    const known = keys.get(key.id) ?? key;
    const newer = known.revision >= key.revision ? known : key;
    keys.set(key.id, { ...newer, revokedAt: key.revokedAt ?? known.revokedAt });
  }
  const changes = await orm.$count(keyChanges, ne(keyChanges.action, "restore"));
  const state = changes < earlier.changes ? earlier : { before: bookmark, changes };
  const saved = { ...state, keys: [...keys.values()] };
  await mkdir(dirname(file), { recursive: true });
  const text = JSON.stringify(saved);
  await replaceFile(file, (draft) => writeFile(draft, text, { mode: 0o600, flush: true }));
  return saved;
}

/**
 * Ends the restored secrets that had ended before, and makes the limiters use the restored keys. A
 * limiter ignores a key whose revision is smaller than the last one it saw, and resets only if a key
 * has more resets than it has seen. So each key gets a larger revision and keeps its resets.
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
  const revision = keys.reduce((most, key) => Math.max(most, key.revision + 1), at.getTime());
  const details = { bookmark: { from: before, to: bookmark } };
  const statements: SQLWrapper[] = [
    orm.update(apiKeys).set({ revision }),
    orm.insert(keyChanges).values({ at, actor, action: "restore", keyId: "*", details }),
  ];
  const ended: string[] = [];
  for (const { id, hash, lastFour, ...saved } of keys) {
    const key = restored.get(id);
    if (key === undefined) continue;
    const revokedAt = key.revokedAt ?? saved.revokedAt;
    const resets = Math.max(key.resets, saved.resets);
    if (key.hash !== hash || key.revokedAt !== revokedAt) ended.push(id);
    else if (key.resets === resets) continue;
    statements.push(
      orm.update(apiKeys).set({ hash, lastFour, revokedAt, resets }).where(eq(apiKeys.id, id)),
      orm.delete(formerKeyHashes).where(eq(formerKeyHashes.keyId, id)),
      ...saved.former.map((one) => orm.insert(formerKeyHashes).values(one)),
    );
  }
  await database.transaction(statements);
  return ended;
}
