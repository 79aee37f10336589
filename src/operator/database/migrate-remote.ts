import { connect, sendQuery } from "./d1-api.ts";
import { MIGRATIONS_TABLE, readMigrations } from "./migrations.ts";
import { retrying } from "./remote.ts";
import type { RemoteTarget } from "./remote-failure.ts";

/**
 * Applies the pending migrations of a deployed database, each in one transaction, and records them
 * in the table of `wrangler d1 migrations`. After each migration, reads which ones are recorded,
 * because an answer of Cloudflare can be lost.
 *
 * @throws an Error for the operator if a migration is not recorded afterwards.
 */
export async function applyMigrations(target: RemoteTarget): Promise<void> {
  const database = await retrying(target, "reads", () => connect(target));
  const readApplied = async () => {
    const sql = "SELECT name FROM d1_migrations";
    const rows = await retrying(target, "reads", () => sendQuery(database, { sql }));
    return new Set(rows.map((row) => Object.values(row)[0]));
  };
  await retrying(target, "stores once", () => sendQuery(database, { sql: MIGRATIONS_TABLE }));
  const applied = await readApplied();
  for (const { file, sql } of await readMigrations(target.name)) {
    if (applied.has(file)) continue;
    const record = `INSERT INTO d1_migrations (name) VALUES ('${file}')`;
    const failure = await sendQuery(database, { sql: `${sql}\n;${record}` }).then(
      () => new Error(`Cloudflare reported success, but the migration ${file} is not recorded`),
      (error: Error) => error,
    );
    if (!(await readApplied()).has(file)) throw failure;
  }
}
