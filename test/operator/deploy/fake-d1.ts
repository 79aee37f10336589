import { randomUUID } from "node:crypto";
import { DatabaseSync } from "node:sqlite";
import { DATABASE_NAMES } from "../../../src/operator/database/database.ts";
import type { RemoteEnvironment } from "../../../src/operator/arguments.ts";
import { readMigrations } from "../../../src/operator/database/migrations.ts";
import { ApiError, bodyOf, type Routes } from "./route.ts";

/** D1's limit on one value or row. */
const MAX_ROW_BYTES = 2_000_000;

/** A cache of migrated databases, by their migrations: migrating takes long. */
const migrated = new Map<string, Uint8Array>();

interface Query {
  readonly sql: string;
  readonly params?: readonly string[];
}

/** A fake D1 database. As in D1, each query is one transaction and returns integers as doubles. */
class FakeD1 {
  readonly uuid = randomUUID();
  name = "";
  jurisdiction: string | null = null;
  sqlite = new DatabaseSync(":memory:");
  readonly #states: { atMs: number; bookmark: string; content: Uint8Array }[] = [];

  get migrations() {
    return readMigrations(this.name.endsWith("-keys") ? "keys" : "orders");
  }

  /** Applies migrations as wrangler would. `missing` is the number of newest ones to leave out. */
  migrate(missing = 0): void {
    const applied = this.migrations.slice(0, this.migrations.length - missing);
    const label = applied.map(({ name }) => name).join();
    const content = migrated.get(label);
    if (content !== undefined) return this.sqlite.deserialize(content);
    this.sqlite.exec("CREATE TABLE d1_migrations (id INTEGER PRIMARY KEY, name, applied_at)");
    for (const { name, sql } of applied) {
      this.sqlite.exec(`${sql};\nINSERT INTO d1_migrations (name) VALUES ('${name}')`);
    }
    migrated.set(label, this.sqlite.serialize());
  }

  /** Runs queries in one transaction. Only a query of a single statement can have parameters. */
  execute(...queries: readonly Query[]): object[] {
    this.sqlite.exec("BEGIN");
    try {
      const results = queries.flatMap(({ sql, params }) => [...this.#runEach(sql, params)]);
      this.sqlite.exec("COMMIT");
      return results;
    } catch (error) {
      this.sqlite.exec("ROLLBACK");
      throw new ApiError(400, 7500, `${(error as Error).message}: SQLITE_ERROR`);
    }
  }

  /** Saves the current state and returns its bookmark. Real D1 has a bookmark of every state. */
  bookmark(): string {
    const bookmark = `${String(this.#states.length).padStart(8, "0")}-00000000-00004e2f-0a83ea2f`;
    const atMs = Math.max(Date.now(), (this.#states.at(-1)?.atMs ?? 0) + 1);
    this.#states.push({ atMs, bookmark, content: this.sqlite.serialize() });
    return bookmark;
  }

  /** Finds the last state until a time, or the state of a bookmark. */
  state(timeOrBookmark: string) {
    const ms = Date.parse(timeOrBookmark);
    return this.#states.findLast((state) => state.bookmark === timeOrBookmark || state.atMs <= ms)!;
  }

  restore(bookmark: string): void {
    // A new database, because statements that outlive `deserialize` can crash Node.
    this.sqlite.close();
    this.sqlite = new DatabaseSync(":memory:");
    this.sqlite.deserialize(this.state(bookmark).content);
  }

  *#runEach(sql: string, params: readonly string[] = []): Generator<object> {
    if (params.some((param) => typeof param !== "string")) throw new Error("expected strings");
    if (params.join("").length > MAX_ROW_BYTES) throw new Error("too big: SQLITE_TOOBIG");
    let rest = sql;
    while (/[^\s;]/.test(rest.replace(/--.*/g, ""))) {
      const statement = this.sqlite.prepare(rest);
      statement.setReadBigInts(true);
      const columns = statement.columns().map(({ name }) => name);
      statement.setReturnArrays(true);
      const rows = statement.all(...params) as unknown as unknown[][];
      const toDouble = (value: unknown) => (typeof value === "bigint" ? Number(value) : value);
      const results = { columns, rows: rows.map((row) => row.map(toDouble)) };
      yield { meta: { duration: 0.2, served_by_region: "WEUR" }, results, success: true };
      // `prepare` compiled only the first statement in `rest`; `sourceSQL` is its text.
      rest = rest.slice(statement.sourceSQL.length);
    }
  }
}

/** The databases of a fake account, and the endpoints for them. */
export class FakeD1Api {
  readonly databases: FakeD1[] = [];

  readonly routes: Routes = {
    "GET /d1/database": ({ query }) =>
      this.databases.filter(({ name }) => name.includes(query.get("name") ?? "")).map(describe),
    "POST /d1/database": (call) => {
      const body = bodyOf<Record<string, string>>(call);
      const { name = "", primary_location_hint: location, jurisdiction } = body;
      call.change(`create database ${name} in ${location ?? jurisdiction}`);
      return describe(this.create(name, jurisdiction));
    },
    "GET /d1/database/:": (_, id) => describe(this.find(id)),
    "POST /d1/database/:/raw": (call, id) => {
      const body = bodyOf<Query & { batch?: readonly Query[] }>(call);
      const queries = body.batch ?? [body];
      const sql = queries.map((query) => query.sql).join(";\n");
      const { name } = this.find(id);
      const migration = /INSERT INTO d1_migrations \(name\) VALUES \('([^']*)'\)/.exec(sql)?.[1];
      if (migration !== undefined) call.change(`migrate ${name}: ${migration}`);
      else if (!/^\s*select\b/i.test(sql)) call.change(`write to ${name}`);
      return this.find(id).execute(...queries);
    },
    // The fake wrangler sends the whole file at once.
    "POST /d1/database/:/import": ({ body, change }, id) => {
      change(`import into ${this.find(id).name}`);
      this.find(id).execute({ sql: body.toString() });
    },
    "GET /d1/database/:/time_travel/bookmark": ({ query }, id) => {
      const time = query.get("timestamp");
      return { bookmark: time ? this.find(id).state(time).bookmark : this.find(id).bookmark() };
    },
    "POST /d1/database/:/time_travel/restore": ({ query }, id) => {
      const bookmark = query.get("bookmark") ?? "";
      const previous = this.find(id).bookmark();
      this.find(id).restore(bookmark);
      return { bookmark, previous_bookmark: previous, message: `restored to ${bookmark}` };
    },
  };

  find(nameOrId: string): FakeD1 {
    const found = this.databases.find(({ name, uuid }) => name === nameOrId || uuid === nameOrId);
    if (found !== undefined) return found;
    throw new ApiError(404, 7404, `The database ${nameOrId} could not be found`);
  }

  create(name: string, jurisdiction: string | null = null): FakeD1 {
    if (this.databases.some((database) => database.name === name)) {
      throw new ApiError(400, 7502, "A database with that name already exists");
    }
    this.databases.push(Object.assign(new FakeD1(), { name, jurisdiction }));
    return this.find(name);
  }

  /** Creates an environment's databases. `missing` is the number of newest migrations they lack. */
  createStore(environment: RemoteEnvironment, missing = 0): void {
    for (const name of DATABASE_NAMES) {
      this.create(`store-orders-${environment}-${name}`).migrate(missing);
    }
  }
}

function describe({ uuid, name, jurisdiction }: FakeD1): object {
  return { uuid, name, jurisdiction, version: "production", num_tables: 5, file_size: 12_288 };
}
