import { createHash, randomUUID } from "node:crypto";
import { DATABASE_NAMES } from "../../../src/operator/database/database.ts";
import type { RemoteEnvironment } from "../../../src/operator/environment.ts";
import { FakeD1 } from "./fake-d1.ts";
import { ApiError } from "./route.ts";
import type { ApiCall, Route } from "./route.ts";

interface QueryRequest {
  readonly sql: string;
  readonly params?: readonly string[];
}

interface Creation {
  readonly name: string;
  readonly primary_location_hint?: string;
  readonly jurisdiction?: string;
}

interface ImportRequest {
  readonly action: "init" | "ingest" | "poll";
  readonly etag: string;
  readonly filename: string;
}

/**
 * A fake of the D1 API: finds databases by name or id, runs queries, and imports and exports SQL.
 */
export class FakeD1Api {
  readonly databases: FakeD1[] = [];
  readonly #files = new Map<string, string>();
  readonly #origin: () => string;
  #imported: object = {};

  constructor(origin: () => string) {
    this.#origin = origin;
  }

  readonly routes: readonly Route[] = [
    { method: "GET", path: /^\/d1\/database$/, answer: ({ query }) => this.#list(query) },
    {
      method: "POST",
      path: /^\/d1\/database$/,
      change: ({ body }) => describeCreation(JSON.parse(body.toString())),
      answer: ({ body }) => {
        const { name, jurisdiction } = JSON.parse(body.toString()) as Creation;
        return describe(this.create(name, jurisdiction));
      },
    },
    {
      method: "GET",
      path: /^\/d1\/database\/([^/]+)$/,
      answer: (_, name) => describe(this.find(name)),
    },
    {
      method: "POST",
      path: /^\/d1\/database\/([^/]+)\/query$/,
      change: (call, name) => this.#describeQuery(call, name),
      answer: ({ body }, name) => this.#execute(name, JSON.parse(body.toString())),
    },
    {
      method: "POST",
      path: /^\/d1\/database\/([^/]+)\/import$/,
      change: ({ body }, name) =>
        JSON.parse(body.toString()).action === "ingest"
          ? `import into ${this.find(name).name}`
          : undefined,
      answer: ({ body }, name) => this.#import(name, JSON.parse(body.toString())),
    },
    {
      method: "GET",
      path: /^\/d1\/database\/([^/]+)\/time_travel\/bookmark$/,
      answer: ({ query }, name) => this.#bookmark(name, query.get("timestamp")),
    },
    {
      method: "POST",
      path: /^\/d1\/database\/([^/]+)\/time_travel\/restore$/,
      change: (_, name) => `restore ${this.find(name).name}`,
      answer: ({ query }, name) => this.#restore(name, query.get("bookmark") ?? ""),
    },
    {
      method: "POST",
      path: /^\/d1\/database\/([^/]+)\/export$/,
      answer: (_, name) => this.#export(name),
    },
    {
      method: "PUT",
      path: /^\/upload\/(.+)$/,
      answer: ({ body }, filename) => void this.#files.set(filename, body.toString()),
    },
  ];

  /** Returns the database with this name or id. */
  find(nameOrId: string): FakeD1 {
    const found = this.databases.find(({ name, uuid }) => name === nameOrId || uuid === nameOrId);
    if (found === undefined)
      throw new ApiError(404, 7404, `The database ${nameOrId} could not be found`);
    return found;
  }

  create(name: string, jurisdiction?: string): FakeD1 {
    if (this.databases.some((database) => database.name === name)) {
      throw new ApiError(400, 7502, "A database with that name already exists");
    }
    const database = new FakeD1(randomUUID(), name, jurisdiction);
    this.databases.push(database);
    return database;
  }

  /**
   * Creates the databases of an environment with all migrations.
   *
   * @param options `without`: the number of last migrations to leave out in each database.
   */
  createStore(environment: RemoteEnvironment, options?: { readonly without: number }): void {
    for (const name of DATABASE_NAMES) {
      this.create(`store-orders-${environment}-${name}`).migrate(options);
    }
  }

  /** Returns the content of a file to which a database was exported. */
  download(filename: string): string {
    return this.#files.get(filename) ?? "";
  }

  etag({ body }: ApiCall): string {
    return createHash("md5").update(body).digest("hex");
  }

  #list(query: URLSearchParams): object[] {
    const size = Number(query.get("per_page"));
    const start = (Number(query.get("page")) - 1) * size;
    const name = query.get("name") ?? "";
    const found = this.databases.filter((database) => database.name.includes(name));
    return found.slice(start, start + size).map(describe);
  }

  #describeQuery({ body }: ApiCall, name: string): string | undefined {
    const sql: string = JSON.parse(body.toString()).sql;
    if (/^\s*select\b/i.test(sql)) return undefined;
    const migration = /INSERT INTO d1_migrations \(name\) VALUES \('([^']*)'\)/.exec(sql)?.[1];
    return migration === undefined
      ? `write to ${this.find(name).name}`
      : `migrate ${this.find(name).name}: ${migration}`;
  }

  #execute(name: string, { sql, params }: QueryRequest): object[] {
    const database = this.find(name);
    try {
      return database.execute(sql, params);
    } catch (error) {
      throw new ApiError(400, 7500, `${(error as Error).message}: SQLITE_ERROR`);
    }
  }

  #bookmark(name: string, timestamp: string | null): object {
    const database = this.find(name);
    return {
      bookmark: timestamp ? database.bookmarkAt(new Date(timestamp)) : database.bookmark(),
    };
  }

  #restore(name: string, bookmark: string): object {
    const database = this.find(name);
    const previous = database.bookmark();
    try {
      database.restore(bookmark);
    } catch (error) {
      throw new ApiError(400, 7500, (error as Error).message);
    }
    return { bookmark, previous_bookmark: previous, message: `restored to ${bookmark}` };
  }

  /** Exports the schema of a database. A real export also contains the rows. */
  #export(name: string): object {
    const { sqlite, uuid } = this.find(name);
    const schema = sqlite.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL").all();
    this.#files.set(`${uuid}.sql`, schema.map(({ sql }) => `${String(sql)};\n`).join(""));
    const signedUrl = `${this.#origin()}/download/${uuid}.sql`;
    const result = { filename: `${uuid}.sql`, signed_url: signedUrl };
    return {
      success: true,
      type: "export",
      status: "complete",
      at_bookmark: "0-0",
      messages: [],
      result,
    };
  }

  #import(name: string, { action, etag, filename }: ImportRequest): object {
    if (action === "poll") return this.#imported;
    if (action === "init") {
      const file = `${this.find(name).uuid}.${etag}.sql`;
      return {
        success: true,
        filename: file,
        upload_url: `${this.#origin()}/upload/${file}`,
        messages: [],
      };
    }
    try {
      const results = this.find(name).execute(this.#files.get(filename) ?? "");
      const result = { num_queries: results.length, final_bookmark: "0-0", meta: results[0]?.meta };
      this.#imported = { success: true, type: "import", status: "complete", messages: [], result };
    } catch (error) {
      this.#imported = {
        success: false,
        type: "import",
        status: "error",
        error: (error as Error).message,
        messages: [],
      };
    }
    return {
      success: true,
      type: "import",
      status: "active",
      at_bookmark: "0-0",
      messages: ["Processed 1 query"],
    };
  }
}

function describe({ uuid, name, jurisdiction }: FakeD1): object {
  return { uuid, name, jurisdiction };
}

function describeCreation(body: Creation): string {
  const place = body.primary_location_hint ?? body.jurisdiction;
  return `create database ${body.name}${place === undefined ? "" : ` in ${place}`}`;
}
