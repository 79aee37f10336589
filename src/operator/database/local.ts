import { cpSync, existsSync, mkdtempDisposableSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { errorMessage } from "../command-line.ts";
import { ormOver, type StoreDatabase, toStatement } from "../../store/database.ts";
import { databaseFile, makeFolder, requireStoreOrEmpty } from "./local-store.ts";
import { MIGRATIONS_TABLE, readMigrations } from "./migrations.ts";
import { retryWhileBusy } from "../retry.ts";
import type { DatabaseName } from "../../schema/databases.ts";

/** D1's limits for SQLite. A statement that D1 would refuse must fail on this machine too. */
const limits = { length: 2_000_000, sqlLength: 100_000, functionArg: 32, variableNumber: 100 };

/** Matches SQLite's errors about a file or folder that cannot be written to, or about a full disk. */
const READ_ONLY =
  /readonly database|unable to open database file|READONLY|CANTOPEN|disk is full|disk I.O error/;

/**
 * Opens the SQLite file of workerd's D1 directly, because workerd takes a second to start. Applies
 * pending migrations. The service may use the same store meanwhile (see `retryWhileBusy`).
 *
 * @param persistTo the folder of the store. Creates the folder if it is missing.
 * @throws an Error if the folder cannot be created or holds something else, or if a migration fails.
 */
export async function openLocalDatabase(
  persistTo: string,
  name: DatabaseName,
): Promise<StoreDatabase & Disposable> {
  const folder = resolve(persistTo);
  requireStoreOrEmpty(folder);
  const opened = new DisposableStack();
  const sqlite = await openFile(folder, name, opened).catch((cause) => {
    opened.dispose();
    const message = `the store in ${folder} could not be opened: ${errorMessage(cause)}`;
    throw new Error(message, { cause });
  });
  const run = ({ sql, params }: ReturnType<typeof toStatement>) => {
    const statement = sqlite.prepare(sql);
    statement.setReturnArrays(true);
    return statement.all(...params) as unknown as unknown[][];
  };
  const attempt = <T>(work: () => T) =>
    retryWhileBusy(async () => work()).catch((cause: Error) => {
      if (!READ_ONLY.test(cause.message)) throw cause;
      throw new Error(`the store in ${folder} was not changed: ${cause.message}`, { cause });
    });
  return {
    orm: ormOver((statement) => attempt(() => run(statement))),
    transaction: (statements) =>
      attempt(() => inTransaction(sqlite, () => statements.map(toStatement).map(run))),
    [Symbol.dispose]: () => opened.dispose(),
  };
}

/** Opens a database, or one that cannot be written to for reading. `opened` closes it. */
async function openFile(folder: string, name: DatabaseName, opened: DisposableStack) {
  const file = databaseFile(folder, name);
  // A statement on a locked database fails instead of blocking, and `retryWhileBusy` repeats it.
  const open = (path = file, readOnly = false) =>
    opened.use(new DatabaseSync(path, { timeout: 0, limits, readOnly }));
  let sqlite: DatabaseSync | undefined;
  try {
    // Creates the store's folder first, so that an error names this folder and not its subfolder.
    for (const each of [folder, dirname(file)]) makeFolder(each);
    const current = (sqlite = open());
    await retryWhileBusy(async () => migrate(current, name));
    return current;
  } catch (error) {
    if (!existsSync(file) || !READ_ONLY.test((error as Error).message)) throw error;
    sqlite?.close();
  }
  try {
    // In WAL mode, SQLite needs room beside the file, unless it has the database to itself.
    sqlite = open();
    sqlite.exec("PRAGMA locking_mode = EXCLUSIVE; PRAGMA query_only = TRUE");
    sqlite.prepare("SELECT name FROM d1_migrations").all();
    return sqlite;
  } catch {
    sqlite?.close();
    const { path } = opened.use(mkdtempDisposableSync(join(tmpdir(), "store-orders-")));
    const copy = join(path, "copy.sqlite");
    for (const end of ["", "-wal"]) if (existsSync(file + end)) cpSync(file + end, copy + end);
    return open(copy, true);
  }
}

/**
 * Applies pending migrations in one transaction, without wrangler, which is slow to start.
 *
 * @throws an Error for the operator if another version of the service made the tables.
 */
function migrate(sqlite: DatabaseSync, database: DatabaseName): void {
  const migrations = readMigrations(database);
  const findPending = () => {
    const hasTable = sqlite.prepare("PRAGMA table_info(d1_migrations)").get() !== undefined;
    const rows = hasTable ? sqlite.prepare("SELECT name FROM d1_migrations").all() : [];
    const applied = new Set(rows.map(({ name }) => name));
    return migrations.filter(({ name }) => !applied.has(name));
  };
  if (findPending().length > 0) {
    // With WAL, as in workerd, a transaction of one process does not block reads of another.
    sqlite.exec("PRAGMA journal_mode = WAL");
    inTransaction(sqlite, () => {
      sqlite.exec(MIGRATIONS_TABLE);
      const record = sqlite.prepare("INSERT INTO d1_migrations (name) VALUES (?)");
      // Another process may have applied migrations before this transaction began.
      for (const { name, sql } of findPending()) {
        sqlite.exec(sql);
        record.run(name);
      }
    });
  }
  using expected = new DatabaseSync(":memory:");
  for (const { sql } of migrations) expected.exec(sql);
  const schemaOf = (one: DatabaseSync) =>
    Array.from(one.prepare("SELECT sql FROM sqlite_schema").iterate(), (row) => row["sql"]);
  const found = schemaOf(sqlite);
  if (schemaOf(expected).every((text) => found.includes(text))) return;
  throw new Error(
    "another version of the service made it. Export its orders with that version, and import them into a new store",
  );
}

function inTransaction<T>(sqlite: DatabaseSync, work: () => T): T {
  sqlite.exec("BEGIN IMMEDIATE");
  try {
    const result = work();
    sqlite.exec("COMMIT");
    return result;
  } finally {
    if (sqlite.isTransaction) sqlite.exec("ROLLBACK");
  }
}
