import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { errorMessage } from "../command-line.ts";
import {
  type DatabaseName,
  ormOver,
  type Statement,
  type StoreDatabase,
  toStatement,
} from "./database.ts";
import { databaseFile } from "./local-store.ts";
import { MIGRATIONS_TABLE, readMigrations } from "./migrations.ts";
import { retryWhileBusy } from "./retry-while-busy.ts";

/** D1's limits for SQLite. A statement that D1 would refuse must fail on this machine too. */
const limits = {
  length: 2_000_000,
  sqlLength: 100_000,
  column: 100,
  functionArg: 32,
  likePatternLength: 50,
  variableNumber: 100,
};

/** Matches SQLite's errors about a file or folder that cannot be written to. */
const READ_ONLY = /readonly database|unable to open database file|READONLY|CANTOPEN/;

export type LocalStore = Readonly<Record<DatabaseName, StoreDatabase>> & AsyncDisposable;

/** Opens both databases of a local store as `openLocalDatabase` does. */
export async function openLocalStore(persistTo: string): Promise<LocalStore> {
  await using stack = new AsyncDisposableStack();
  const open = async (name: DatabaseName) =>
    stack.adopt(await openLocalDatabase(persistTo, name), (database) => database.close());
  const databases = { orders: await open("orders"), keys: await open("keys") };
  const opened = stack.move();
  return { ...databases, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}

/**
 * Opens the SQLite file of workerd's D1 directly, because workerd takes a second to start. Applies
 * pending migrations. The service may use the same store meanwhile (see `retryWhileBusy`).
 *
 * @param persistTo the folder of the store. Creates the folder if it is missing.
 * @throws an Error if the folder cannot be created, or if a migration fails.
 */
export async function openLocalDatabase(
  persistTo: string,
  name: DatabaseName,
): Promise<StoreDatabase> {
  const folder = resolve(persistTo);
  const { sqlite, remove } = await openMigrated(folder, name).catch((cause) => {
    throw new Error(`the store in ${folder} could not be opened: ${errorMessage(cause)}`, {
      cause,
    });
  });
  const run = ({ sql, params }: Statement) => {
    const statement = sqlite.prepare(sql);
    statement.setReturnArrays(true);
    try {
      return statement.all(...params) as unknown as unknown[][];
    } catch (cause) {
      const { message } = cause as Error;
      if (!/readonly database|disk is full|disk I.O error/.test(message)) throw cause;
      throw new Error(`the store in ${folder} was not changed: ${message}`, { cause });
    }
  };
  return {
    orm: ormOver((statement) => retryWhileBusy(async () => run(statement))),
    transaction: async (statements) => {
      const written = statements.map(toStatement);
      if (written.length > 0) await inTransaction(sqlite, () => written.forEach(run));
    },
    close: async () => {
      sqlite.close();
      remove();
    },
  };
}

async function openMigrated(folder: string, name: DatabaseName) {
  const file = databaseFile(folder, name);
  try {
    // Creates the store's folder first, so that an error names this folder and not its subfolder.
    for (const each of [folder, dirname(file)]) mkdirSync(each, { recursive: true });
    // A statement on a locked database fails instead of blocking, and `retryWhileBusy` repeats it.
    const sqlite = new DatabaseSync(file, { timeout: 0, limits });
    try {
      await migrate(sqlite, name);
      return { sqlite, remove: () => {} };
    } catch (error) {
      sqlite.close();
      throw error;
    }
  } catch (error) {
    if (!existsSync(file) || !READ_ONLY.test((error as Error).message)) throw error;
    return openCopy(file);
  }
}

/** Opens a copy for reading: SQLite needs to write beside the file of a database in WAL mode. */
function openCopy(file: string) {
  const folder = mkdtempSync(join(tmpdir(), "store-orders-"));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  try {
    const copy = join(folder, "copy.sqlite");
    for (const end of ["", "-wal"]) {
      if (existsSync(file + end)) cpSync(file + end, copy + end);
    }
    return { sqlite: new DatabaseSync(copy, { readOnly: true, limits }), remove };
  } catch (error) {
    remove();
    throw error;
  }
}

/** Applies pending migrations in one transaction, without wrangler, which is slow to start. */
async function migrate(sqlite: DatabaseSync, database: DatabaseName): Promise<void> {
  const migrations = readMigrations(database);
  const findPending = () => {
    const names = (sql: string) =>
      sqlite
        .prepare(sql)
        .all()
        .map(({ name }) => name);
    const tables = names("SELECT name FROM sqlite_master WHERE name = 'd1_migrations'");
    const applied = tables.length === 0 ? [] : names("SELECT name FROM d1_migrations");
    return migrations.filter(({ name }) => !applied.includes(name));
  };
  if ((await retryWhileBusy(async () => findPending())).length === 0) return;
  // With WAL, as in workerd, a transaction of one process does not block reads of another.
  await retryWhileBusy(async () => sqlite.exec("PRAGMA journal_mode = WAL"));
  await inTransaction(sqlite, () => {
    // Another process may have applied migrations before this transaction began.
    const pending = findPending();
    sqlite.exec(MIGRATIONS_TABLE);
    const record = sqlite.prepare("INSERT INTO d1_migrations (name) VALUES (?)");
    for (const { name, sql } of pending) {
      sqlite.exec(sql);
      record.run(name);
    }
  });
}

function inTransaction(sqlite: DatabaseSync, work: () => void): Promise<void> {
  return retryWhileBusy(async () => {
    sqlite.exec("BEGIN IMMEDIATE");
    try {
      work();
      sqlite.exec("COMMIT");
    } catch (error) {
      if (sqlite.isTransaction) sqlite.exec("ROLLBACK");
      throw error;
    }
  });
}
