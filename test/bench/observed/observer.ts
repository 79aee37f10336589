/** Callbacks for each use of the service's bindings. */
export interface Observer {
  /** Called before each call of a Durable Object. */
  beforeObjectCall(): Promise<void> | void;
  /** Called before each query of a database. A batch of statements is one query. */
  beforeQuery(database: "ORDERS" | "KEYS"): Promise<void> | void;
  /** Called after each SQL statement. `meta` is what D1 reports about the statement. */
  afterStatement(meta: D1Meta): void;
}
