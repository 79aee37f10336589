import { createHash, randomUUID } from "node:crypto";
import { DatabaseSync } from "node:sqlite";
import { DATABASE_NAMES } from "../../../src/operator/database/database.ts";
import type { RemoteEnvironment } from "../../../src/operator/arguments.ts";
import { readMigrations } from "../../../src/operator/database/migrations.ts";
import { type ApiCall, ApiError, bodyOf, type Routes } from "./route.ts";

/** D1's limit on one value or row. */
const MAX_ROW_BYTES = 2_000_000;

/** A cache of migrated databases, by the names of their migrations: migrating takes long. */
const migrated = new Map<string, Uint8Array>();

interface QueryResult {
  readonly results: { readonly columns: string[]; readonly rows: unknown[][] };
}

interface Query {
  readonly sql: string;
  readonly params?: readonly string[];
}

/** A fake D1 database. As in D1, each query is one transaction and returns integers as doubles. */
class FakeD1 {
  readonly uuid = randomUUID();
  readonly name: string;
  readonly jurisdiction: string | null;
  replication: "auto" | "disabled" = "disabled";
  sqlite = new DatabaseSync(":memory:");
  /** The saved states, the oldest first. */
  readonly #states: { atMs: number; bookmark: string; content: Uint8Array }[] = [];

  constructor(name: string, jurisdiction: string | null = null) {
    this.name = name;
    this.jurisdiction = jurisdiction;
  }

  get migrations() {
    return readMigrations(this.name.endsWith("-keys") ? "keys" : "orders");
  }

  /** Applies migrations as wrangler would. `missing` is the number of newest ones to leave out. */
  migrate(missing = 0): void {
    const applied = this.migrations.slice(0, this.migrations.length - missing);
    const label = applied.map(({ name }) => name).join();
    const content = migrated.get(label);
    if (content !== undefined) return this.sqlite.deserialize(content);
    this.execute("CREATE TABLE d1_migrations (id INTEGER PRIMARY KEY, name TEXT, applied_at TEXT)");
    for (const { name, sql } of applied) {
      this.execute(sql);
      this.execute(`INSERT INTO d1_migrations (name, applied_at) VALUES ('${name}', 'now')`);
    }
    migrated.set(label, this.sqlite.serialize());
  }

  /** Runs queries in one transaction. Only a query of a single statement can have parameters. */
  execute(...queries: readonly (Query | string)[]): QueryResult[] {
    this.sqlite.exec("BEGIN");
    try {
      const results = queries.flatMap((query) =>
        typeof query === "string"
          ? [...this.#runEach(query)]
          : [...this.#runEach(query.sql, query.params)],
      );
      this.sqlite.exec("COMMIT");
      return results;
    } catch (error) {
      this.sqlite.exec("ROLLBACK");
      throw error;
    }
  }

  /** Saves the current state and returns its bookmark. Real D1 has a bookmark of every state. */
  bookmark(): string {
    const part = (this.#states.length + 1).toString(16).padStart(8, "0");
    const bookmark = `${part}-00000000-00004e2f-0a83ea2fceebc654de0640c422be4653`;
    const atMs = Math.max(Date.now(), (this.#states.at(-1)?.atMs ?? 0) + 1);
    this.#states.push({ atMs, bookmark, content: this.sqlite.serialize() });
    return bookmark;
  }

  bookmarkAt(time: string): string {
    const state = this.#states.findLast(({ atMs }) => atMs <= Date.parse(time));
    if (state === undefined) throw new ApiError(400, 7500, `no bookmark for ${time}`);
    return state.bookmark;
  }

  restore(bookmark: string): void {
    const { content } = this.#find(bookmark);
    // A new database, because statements that outlive `deserialize` can crash Node.
    this.sqlite.close();
    this.sqlite = new DatabaseSync(":memory:");
    this.sqlite.deserialize(content);
  }

  #find(bookmark: string) {
    const state = this.#states.find((known) => known.bookmark === bookmark);
    if (state === undefined) throw new ApiError(400, 7500, `bookmark ${bookmark} is not valid`);
    return state;
  }

  *#runEach(sql: string, params: readonly string[] = []): Generator<QueryResult> {
    if (params.some((param) => typeof param !== "string")) {
      throw new Error("expected an array of strings");
    }
    if (params.join("").length > MAX_ROW_BYTES) {
      throw new Error("string or blob too big: SQLITE_TOOBIG");
    }
    let rest = sql;
    while (/[^\s;]/.test(rest.replace(/--.*/g, ""))) {
      const statement = this.sqlite.prepare(rest);
      statement.setReadBigInts(true);
      const columns = statement.columns().map(({ name }) => name);
      statement.setReturnArrays(true);
      const rows = statement.all(...params) as unknown as unknown[][];
      yield { results: { columns, rows: rows.map(asDoubles) } };
      // `prepare` compiled only the first statement in `rest`; `sourceSQL` is its text.
      rest = rest.slice(statement.sourceSQL.length);
    }
  }
}

function asDoubles(row: readonly unknown[]): unknown[] {
  return row.map((value) => (typeof value === "bigint" ? Number(value) : value));
}

export class FakeD1Api {
  readonly databases: FakeD1[] = [];
  readonly #files = new Map<string, string>();
  #imported: object = {};

  readonly routes: Routes = {
    "GET /d1/database": ({ query }) => this.#list(query),
    "POST /d1/database": (call) => this.#create(call),
    "GET /d1/database/:": (_, id) => describe(this.find(id)),
    "POST /d1/database/:/raw": (call, id) => this.#execute(call, this.find(id)),
    "POST /d1/database/:/import": (call, id) => this.#import(call, this.find(id)),
    "GET /d1/database/:/time_travel/bookmark": ({ query }, id) => {
      const time = query.get("timestamp");
      return { bookmark: time ? this.find(id).bookmarkAt(time) : this.find(id).bookmark() };
    },
    "POST /d1/database/:/time_travel/restore": ({ query, change }, id) => {
      const database = this.find(id);
      change(`restore ${database.name}`);
      const bookmark = query.get("bookmark") ?? "";
      const previous = database.bookmark();
      database.restore(bookmark);
      return { bookmark, previous_bookmark: previous, message: `restored to ${bookmark}` };
    },
    "PUT /upload/:": ({ body }, file) => {
      this.#files.set(file, body.toString());
      const etag = createHash("md5").update(body).digest("hex");
      return new Response("", { headers: { ETag: etag } });
    },
  };

  find(nameOrId: string): FakeD1 {
    const found = this.databases.find(({ name, uuid }) => name === nameOrId || uuid === nameOrId);
    if (found !== undefined) return found;
    throw new ApiError(404, 7404, `The database ${nameOrId} could not be found`);
  }

  create(name: string, jurisdiction?: string): FakeD1 {
    if (this.databases.some((database) => database.name === name)) {
      throw new ApiError(400, 7502, "A database with that name already exists");
    }
    const database = new FakeD1(name, jurisdiction);
    this.databases.push(database);
    return database;
  }

  /** Creates an environment's databases. `missing` is the number of newest migrations they lack. */
  createStore(environment: RemoteEnvironment, missing = 0): void {
    for (const name of DATABASE_NAMES) {
      this.create(`store-orders-${environment}-${name}`).migrate(missing);
    }
  }

  #list(query: URLSearchParams): object[] {
    const name = query.get("name") ?? "";
    return this.databases.filter((database) => database.name.includes(name)).map(describe);
  }

  #create(call: ApiCall): object {
    const body = bodyOf<Record<string, string>>(call);
    const { name = "", primary_location_hint: location, jurisdiction } = body;
    call.change(`create database ${name} in ${location ?? jurisdiction}`);
    return describe(this.create(name, jurisdiction));
  }

  #execute(call: ApiCall, database: FakeD1): object[] {
    const body = bodyOf<Query & { batch?: readonly Query[] }>(call);
    const queries = body.batch ?? [body];
    const sql = queries.map((query) => query.sql).join(";\n");
    const migration = /INSERT INTO d1_migrations \(name\) VALUES \('([^']*)'\)/.exec(sql)?.[1];
    if (migration !== undefined) call.change(`migrate ${database.name}: ${migration}`);
    else if (!/^\s*select\b/i.test(sql)) call.change(`write to ${database.name}`);
    try {
      return database.execute(...queries);
    } catch (error) {
      throw new ApiError(400, 7500, `${(error as Error).message}: SQLITE_ERROR`);
    }
  }

  #import(call: ApiCall, database: FakeD1): object {
    const { action, etag, filename = "" } = bodyOf<Record<string, string>>(call);
    const common = { success: true, type: "import", messages: [] };
    if (action === "poll") return this.#imported;
    if (action === "init") {
      const file = `${database.uuid}.${etag}.sql`;
      return { ...common, filename: file, upload_url: `${call.origin}/upload/${file}` };
    }
    call.change(`import into ${database.name}`);
    try {
      database.execute(this.#files.get(filename) ?? "");
      this.#imported = { ...common, status: "complete" };
    } catch (error) {
      const { message } = error as Error;
      this.#imported = { ...common, success: false, status: "error", error: message };
    }
    return { ...common, status: "active", at_bookmark: "0-0" };
  }
}

function describe({ uuid, name, jurisdiction, replication }: FakeD1): object {
  return { uuid, name, jurisdiction, read_replication: { mode: replication } };
}
