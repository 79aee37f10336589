/** Is shown what the service does with its bindings. */
export interface Observer {
  /** A Durable Object is about to be called. */
  beforeObjectCall(): Promise<void> | void;
  /** The database is about to be asked, once for all statements of a batch. */
  beforeQuery(): Promise<void> | void;
  /** What the database says of each statement that it has run. */
  afterStatement(meta: D1Meta): void;
}
