import { withDeadline } from "../deadline.ts";
import { type DatabaseName, DatabaseUnavailableError } from "./availability.ts";

interface Call<Key, Value> {
  readonly key: Key;
  readonly resolve: (value: Value) => void;
  readonly reject: (error: unknown) => void;
}

/** Runs one query for all these keys, which may repeat. */
type Query<Key, Value> = (keys: readonly Key[]) => Promise<Value>;

/**
 * Lets the requests of an isolate share database queries. At most a few queries run at the same time.
 * Further requests wait until one of the queries ends; the next query then serves all that wait. A
 * request never receives the result of a query that began earlier than the request. The trade: under
 * load, a request waits for two queries.
 *
 * A request may await the query of another request, which `waitUntil` keeps alive if its client
 * disconnects.
 */
export class BatchedQuery<Key, Value> {
  readonly #database: DatabaseName;
  readonly #concurrency: number;
  readonly #deadlineMs: number;
  readonly #running = new Set<Promise<void>>();
  readonly #waiting = new Set<Call<Key, Value>>();

  /**
   * @param concurrency queries that run at the same time.
   * @param timeoutMs milliseconds within which a query settles. A request waits at most twice as long:
   *   for the end of a running query and for its own.
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
   * @param query runs in the request that starts the batch, for the keys of all waiting requests.
   * @param waitUntil keeps this request alive for the others.
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
      // A query that has not settled by now belongs to a request that the platform has ended.
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
