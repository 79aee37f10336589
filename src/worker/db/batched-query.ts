import { withDeadline } from "../deadline.ts";
import { type DatabaseName, DatabaseUnavailableError } from "./availability.ts";

interface Call<Key, Value> {
  readonly key: Key;
  readonly resolve: (value: Value) => void;
  readonly reject: (error: unknown) => void;
}

/** Runs one query for all keys, which have no order and may repeat. */
export type Query<Key, Value> = (keys: readonly Key[]) => Promise<Value>;

/**
 * Lets the requests of an isolate share database queries. A few queries run at once; a request that
 * comes meanwhile waits until one of them ends, and the next query then asks for every waiting
 * request. A request never receives the result of a query that began before the request came.
 *
 * A request awaits promises of another one, which `waitUntil` keeps at work if its client disconnects.
 */
export class BatchedQuery<Key, Value> {
  readonly #database: DatabaseName;
  readonly #concurrency: number;
  readonly #deadlineMs: number;
  readonly #running = new Set<Promise<void>>();
  readonly #waiting = new Set<Call<Key, Value>>();

  /**
   * @param concurrency queries that run at once.
   * @param timeoutMs time in milliseconds within which a query settles. A request can wait for the
   *   end of one query and then for its own.
   */
  constructor({
    database,
    concurrency,
    timeoutMs,
  }: {
    database: DatabaseName;
    concurrency: number;
    timeoutMs: number;
  }) {
    this.#database = database;
    this.#concurrency = concurrency;
    this.#deadlineMs = 2 * timeoutMs;
  }

  /**
   * @param query runs in the request that happens to start the batch, for the keys of all.
   * @param waitUntil keeps this request at work for the others.
   * @throws the error of the query.
   * @throws {DatabaseUnavailableError} if no query answered in time.
   */
  async read(
    key: Key,
    query: Query<Key, Value>,
    waitUntil: (promise: Promise<unknown>) => void,
  ): Promise<Value> {
    const { promise, resolve, reject } = Promise.withResolvers<Value>();
    const call = { key, resolve, reject };
    this.#waiting.add(call);
    const answer = withDeadline(this.#serve(call, promise, query), this.#deadlineMs, () => {
      this.#waiting.delete(call);
      // A query that has not settled by now belongs to a request that was ended from outside.
      this.#running.clear();
      const cause = new Error("No shared query answered in time.");
      return new DatabaseUnavailableError(this.#database, cause);
    });
    waitUntil(answer.catch(() => undefined));
    return answer;
  }

  async #serve(
    call: Call<Key, Value>,
    answer: Promise<Value>,
    query: Query<Key, Value>,
  ): Promise<Value> {
    while (this.#waiting.has(call)) {
      if (this.#running.size < this.#concurrency) this.#start(query);
      else await Promise.race(this.#running);
    }
    return answer;
  }

  #start(query: Query<Key, Value>): void {
    const calls = [...this.#waiting];
    this.#waiting.clear();
    const run = query(calls.map(({ key }) => key))
      .then(
        (value) => calls.forEach(({ resolve }) => resolve(value)),
        (error: unknown) => calls.forEach(({ reject }) => reject(error)),
      )
      .finally(() => this.#running.delete(run));
    this.#running.add(run);
  }
}
