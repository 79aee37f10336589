import { withDeadline } from "./deadline.ts";

interface Waiting<Item, Value> {
  readonly item: Item;
  /** Wakes the request. It then makes the next call, unless another request has already made it. */
  readonly wake: () => void;
  readonly resolve: (value: Value) => void;
  readonly reject: (error: unknown) => void;
}

type WaitUntil = (promise: Promise<unknown>) => void;

/** Calls a database or an object once for these items. Returns one value for each item, in order. */
type Call<Item, Value> = (items: readonly Item[]) => Promise<readonly Value[]>;

interface BatchedCallsOptions {
  /** The number of calls that may be under way at the same time. */
  readonly concurrency: number;
  /** Milliseconds within which every call settles. A request waits for at most two calls. */
  readonly timeoutMs: number;
  /** Creates the error of a request that no call answered in time. */
  readonly late?: (cause: Error) => Error;
}

/**
 * Lets the requests of an isolate share calls to a database or a Durable Object. Only a few calls
 * are under way at the same time. Further requests wait until one of these calls ends; the next call
 * then serves all waiting requests. A request never receives the result of a call that began before
 * the request.
 *
 * One request makes the call for all others that share it: the request that has waited longest, or
 * a new request if it arrives first. `waitUntil` keeps that request alive until the call settles,
 * even if its client disconnects. The end of a call wakes only one waiting request, because it
 * costs time to resume a request. The drawback: if the platform has ended that request, the others
 * wait for the next new request, the end of another call, or the deadline of one of them.
 */
export class BatchedCalls<Item, Value> {
  readonly #options: BatchedCallsOptions;
  readonly #underWay = new Set<Promise<void>>();
  readonly #waiting = new Set<Waiting<Item, Value>>();

  constructor(options: BatchedCallsOptions) {
    this.#options = options;
  }

  /**
   * Returns the value of a shared call for this item.
   *
   * @throws the error of the call; the error of `late` if no call returned in time.
   */
  async valueOf(item: Item, call: Call<Item, Value>, waitUntil: WaitUntil): Promise<Value> {
    const { promise, resolve, reject } = Promise.withResolvers<Value>();
    const woken = Promise.withResolvers<void>();
    const waiting = { item, wake: woken.resolve, resolve, reject };
    this.#waiting.add(waiting);
    const { concurrency, timeoutMs, late } = this.#options;
    if (this.#underWay.size < concurrency) this.#start(call, waitUntil);
    if (!this.#waiting.has(waiting)) return promise;
    void woken.promise.then(() => {
      // A new request may have made a call for this item in the meantime.
      if (this.#waiting.has(waiting)) this.#start(call, waitUntil);
    });
    const before = [...this.#underWay];
    const answer = withDeadline(promise, 2 * timeoutMs, () => {
      this.#waiting.delete(waiting);
      // A call that was already under way when this request arrived will never settle now: the
      // platform has ended the request that made the call.
      for (const one of before) this.#underWay.delete(one);
      this.#wakeOne();
      const cause = new Error("No shared call was answered in time.");
      return late?.(cause) ?? cause;
    });
    waitUntil(answer.catch(() => undefined));
    return answer;
  }

  /** If another call may begin, wakes the request that has waited longest. */
  #wakeOne(): void {
    const [longest] = this.#waiting;
    if (longest === undefined || this.#underWay.size >= this.#options.concurrency) return;
    // Move this request to the end of the queue: if the platform has ended it, the next `#wakeOne`
    // wakes another request.
    this.#waiting.delete(longest);
    this.#waiting.add(longest);
    longest.wake();
  }

  #start(call: Call<Item, Value>, waitUntil: WaitUntil): void {
    const all = [...this.#waiting];
    this.#waiting.clear();
    const one = call(all.map(({ item }) => item))
      .then((values) => {
        if (values.length !== all.length) throw new Error("A call returned too few values.");
        all.forEach(({ resolve }, index) => resolve(values[index] as Value));
      })
      .catch((error: unknown) => all.forEach(({ reject }) => reject(error)))
      .finally(() => {
        this.#underWay.delete(one);
        this.#wakeOne();
      });
    this.#underWay.add(one);
    waitUntil(one);
  }
}
