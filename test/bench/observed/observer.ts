/** An observer of the service's bindings. */
export interface Observer {
  /** Called before each call of a Durable Object. */
  beforeObjectCall(): Promise<void> | void;
  /** Called before each query of a database, once for a batch. */
  beforeQuery(database: "ORDERS" | "KEYS"): Promise<void> | void;
  /** Called with the metadata of each statement. */
  afterStatement(meta: D1Meta): void;
}
