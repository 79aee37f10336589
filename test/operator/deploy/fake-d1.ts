import { randomUUID } from "node:crypto";
import { DatabaseSync } from "node:sqlite";
import { readMigrations } from "../../../src/operator/database/migrations.ts";
import { ApiError, bodyOf, type Routes } from "./route.ts";
import { DATABASE_NAMES } from "../../../src/schema/databases.ts";

type Query = { readonly sql: string; readonly params?: readonly string[] };

/** A fake D1 database. As in D1, each query is one transaction and returns integers as doubles. */
class FakeD1 {
  readonly uuid = randomUUID();
  readonly name: string = "";
  readonly jurisdiction: string | null = null;
  sqlite = new DatabaseSync(":memory:");

  /** Runs queries in one transaction. Only a query of a single statement can have parameters. */
  execute(queries: readonly Query[]): object[] {
    this.sqlite.exec("BEGIN");
    try {
      const results = queries.map((query) => ({ results: { rows: this.#run(query) } }));
      this.sqlite.exec("COMMIT");
      return results;
    } catch (error) {
      this.sqlite.exec("ROLLBACK");
      throw new ApiError(400, 7500, `${(error as Error).message}: SQLITE_ERROR`);
    }
  }

  #run({ sql, params = [] }: Query): unknown[][] {
    if (params.some((param) => typeof param !== "string")) throw new Error("expected strings");
    if (params.join("").length > 2e6) throw new Error("string or blob too big: SQLITE_TOOBIG");
    const statement = this.sqlite.prepare(sql);
    // `prepare` compiled only the first statement in `sql`; `sourceSQL` is its text.
    if (sql.slice(statement.sourceSQL.length).trim()) return (this.sqlite.exec(sql), []);
    statement.setReadBigInts(true);
    statement.setReturnArrays(true);
    const rows = statement.all(...params) as unknown as unknown[][];
    return rows.map((row) => row.map((each) => (typeof each === "bigint" ? Number(each) : each)));
  }
}

export class FakeD1Api {
  readonly databases: FakeD1[] = [];

  readonly routes: Routes = {
    "GET /d1/database": ({ query: { name = "" } }) =>
      this.databases.filter((each) => each.name.includes(name)),
    "POST /d1/database": (call) => {
      const { name = "", ...where } = bodyOf<Record<string, string>>(call);
      call.change(`create database ${name} in ${Object.values(where).join()}`);
      return this.create(name, where["jurisdiction"]);
    },
    "GET /d1/database/:": (_, id) => this.find(id),
    "POST /d1/database/:/raw": (call, id) => {
      const { batch, ...single } = bodyOf<Query & { batch?: readonly Query[] }>(call);
      const { name } = this.find(id);
      if (!/^\s*select\b/i.test((batch?.[0] ?? single).sql)) call.change(`write to ${name}`);
      return this.find(id).execute(batch ?? [single]);
    },
    // The fake wrangler sends the whole file at once.
    "POST /d1/database/:/import": ({ body, change }, id) => {
      change(`import into ${this.find(id).name}`);
      this.find(id).execute([{ sql: body }]);
    },
  };

  find(nameOrId: string | undefined): FakeD1 {
    const found = this.databases.find(({ name, uuid }) => name === nameOrId || uuid === nameOrId);
    if (found !== undefined) return found;
    throw new ApiError(404, 7404, `The database ${nameOrId} could not be found`);
  }

  create(name: string, jurisdiction: string | null = null): FakeD1 {
    this.databases.push(Object.assign(new FakeD1(), { name, jurisdiction }));
    return this.find(name);
  }

  /** Creates an environment's databases. `missing` is the number of newest migrations they lack. */
  createStore(environment: string, missing = 0): void {
    for (const each of DATABASE_NAMES) {
      const { sqlite } = this.create(`store-orders-${environment}-${each}`);
      sqlite.exec("CREATE TABLE d1_migrations (id INTEGER PRIMARY KEY, name, applied_at)");
      for (const { name, sql } of readMigrations(each).slice(0, -missing || undefined)) {
        sqlite.exec(`${sql};\nINSERT INTO d1_migrations (name) VALUES ('${name}')`);
      }
    }
  }
}
