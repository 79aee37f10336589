/** The callbacks for one database (see `Observer`). */
interface DatabaseObserver {
  beforeQuery(): Promise<void> | void;
  afterStatement(meta: D1Meta): void;
}

/** The methods that a D1 database and its sessions have in common. */
type StatementSource = Pick<D1DatabaseSession, "prepare" | "batch">;

/**
 * A D1 database that calls an observer for each query. All methods of `ObservedStatement` use D1's
 * `all`, because only `all` always returns the metadata.
 */
export class ObservedDatabase {
  readonly #source: StatementSource &
    Partial<Pick<D1Database, "withSession"> & Pick<D1DatabaseSession, "getBookmark">>;
  readonly #observer: DatabaseObserver;

  constructor(source: D1Database | D1DatabaseSession, observer: DatabaseObserver) {
    this.#source = source;
    this.#observer = observer;
  }

  withSession(constraintOrBookmark?: D1SessionBookmark): ObservedDatabase {
    const session = this.#source.withSession?.(constraintOrBookmark);
    if (session === undefined) throw new Error("A session has no sessions.");
    return new ObservedDatabase(session, this.#observer);
  }

  getBookmark(): D1SessionBookmark | null {
    return this.#source.getBookmark?.() ?? null;
  }

  prepare(query: string): ObservedStatement {
    return new ObservedStatement(this.#source.prepare(query), this.#observer);
  }

  async batch(statements: readonly ObservedStatement[]): Promise<D1Result[]> {
    await this.#observer.beforeQuery();
    const results = await this.#source.batch(statements.map(({ statement }) => statement));
    for (const { meta } of results) this.#observer.afterStatement(meta);
    return results;
  }
}

class ObservedStatement {
  readonly statement: D1PreparedStatement;
  readonly #observer: DatabaseObserver;

  constructor(statement: D1PreparedStatement, observer: DatabaseObserver) {
    this.statement = statement;
    this.#observer = observer;
  }

  bind(...values: unknown[]): ObservedStatement {
    return new ObservedStatement(this.statement.bind(...values), this.#observer);
  }

  async all(): Promise<D1Result<Record<string, unknown>>> {
    await this.#observer.beforeQuery();
    const result = await this.statement.all();
    this.#observer.afterStatement(result.meta);
    return result;
  }

  run(): Promise<D1Result> {
    return this.all();
  }

  async first(): Promise<Record<string, unknown> | null> {
    const { results } = await this.all();
    return results[0] ?? null;
  }

  async raw(): Promise<unknown[][]> {
    const { results } = await this.all();
    return results.map((row) => Object.values(row));
  }
}
