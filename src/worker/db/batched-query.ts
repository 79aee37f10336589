import { withDeadline } from "../deadline.ts";

interface Call<Key, Value> {
  readonly key: Key;
  /**
   * Wakes the request that made this call. The woken request then starts the next query, unless
   * another request has already started it.
   */
  readonly wake: () => void;
  readonly resolve: (value: Value) => void;
  readonly reject: (error: unknown) => void;
}

type WaitUntil = (promise: Promise<unknown>) => void;

/** Runs one query for the keys of all waiting requests. A key may occur several times. */
type Query<Key, Value> = (keys: readonly Key[]) => Promise<Value>;

interface BatchedQueryOptions {
  /** The number of queries that may run at the same time. */
  readonly concurrency: number;
  /** Milliseconds within which every query settles. A request waits for at most two queries. */
  readonly timeoutMs: number;
  /** Creates the error of a request that no query answered in time. */
  readonly late?: (cause: Error) => Error;
}

/**
 * Lets the requests of an isolate share database queries. Only a few queries run at the same time.
 * Further requests wait until one of these queries ends; the next query then serves all waiting
 * requests. A request never receives the result of a query that began before the request.
 *
 * One request runs the query for all others that share it: the request that has waited longest, or
 * a new request if it arrives first. `waitUntil` keeps that request alive until the query settles,
 * even if its client disconnects. The end of a query wakes only one waiting request, because it
 * costs time to resume a request. The drawback: if the platform has ended that request, the others
 * wait for the next new request, the end of another query, or the deadline of one of them.
 */
export class BatchedQuery<Key, Value> {
  readonly #concurrency: number;
  readonly #deadlineMs: number;
  readonly #late: (cause: Error) => Error;
  readonly #running = new Set<Promise<void>>();
  readonly #waiting = new Set<Call<Key, Value>>();

  constructor(options: BatchedQueryOptions) {
    this.#concurrency = options.concurrency;
    this.#deadlineMs = 2 * options.timeoutMs;
    this.#late = options.late ?? ((cause) => cause);
  }

  /**
   * Returns the result of a shared query for this key.
   *
   * @param waitUntil keeps this request alive until a promise settles, even if its client
   *   disconnects: other requests may share its query.
   * @throws the error of the query; the error of `late` if no query returned in time.
   */
  async read(key: Key, query: Query<Key, Value>, waitUntil: WaitUntil): Promise<Value> {
    const { promise, resolve, reject } = Promise.withResolvers<Value>();
    const woken = Promise.withResolvers<void>();
    const call = { key, wake: woken.resolve, resolve, reject };
    this.#waiting.add(call);
    if (this.#running.size < this.#concurrency) this.#start(query, waitUntil);
    if (!this.#waiting.has(call)) return promise;
    void woken.promise.then(() => {
      // A new request may have started a query for this call in the meantime.
      if (this.#waiting.has(call)) this.#start(query, waitUntil);
    });
    const before = [...this.#running];
    const answer = withDeadline(promise, this.#deadlineMs, () => {
      this.#waiting.delete(call);
      // A query that was already running when this call arrived will never settle now: the platform
      // has ended the request that ran the query.
      for (const run of before) this.#running.delete(run);
      this.#wakeOne();
      return this.#late(new Error("No shared query answered in time."));
    });
    waitUntil(answer.catch(() => undefined));
    return answer;
  }

  /** If another query may run, wakes the request that has waited longest. */
  #wakeOne(): void {
    const [longest] = this.#waiting;
    if (longest === undefined || this.#running.size >= this.#concurrency) return;
    // Move this call to the end of the queue: if the platform has ended its request, the next
    // `#wakeOne` wakes another request.
    this.#waiting.delete(longest);
    this.#waiting.add(longest);
    longest.wake();
  }

  #start(query: Query<Key, Value>, waitUntil: WaitUntil): void {
    const calls = [...this.#waiting];
    this.#waiting.clear();
    const run = query(calls.map(({ key }) => key))
      .then(
        (value) => calls.forEach(({ resolve }) => resolve(value)),
        (error: unknown) => calls.forEach(({ reject }) => reject(error)),
      )
      .finally(() => {
        this.#running.delete(run);
        this.#wakeOne();
      });
    this.#running.add(run);
    waitUntil(run);
  }
}
