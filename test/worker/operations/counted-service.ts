import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { observedBindings } from "../../support/observed-bindings.ts";
import { limiterNamed } from "../../support/limiter.ts";
import { type RequestOptions, type Send, settle, startService } from "../../support/service.ts";

/** A count of zero for each operation that Cloudflare bills or that keeps the D1 database busy. */
export const NO_OPERATIONS = {
  /** Calls to Durable Objects, alarms included. */
  objectCalls: 0,
  /** Writes and deletions in the storage of Durable Objects, and alarms set. */
  objectRowsWritten: 0,
  /** D1 queries. A batch is one query. */
  queries: 0,
  rowsRead: 0,
  rowsWritten: 0,
};

export type Operations = Readonly<typeof NO_OPERATIONS>;

interface SentRequest extends RequestOptions {
  /** The path after `/v1/store/orders`. */
  readonly path?: string;
}

/** Runs the service in one isolate, and counts the operations that `NO_OPERATIONS` lists. */
export class CountedService {
  readonly #sender: RequestOptions;
  readonly #vars: Record<string, string>;
  readonly #bindings: Cloudflare.Env;
  readonly #counted = { ...NO_OPERATIONS };
  #isolate: Send;

  constructor(sender: RequestOptions = {}, vars: Record<string, string> = {}) {
    this.#sender = sender;
    this.#vars = vars;
    this.#bindings = observedBindings(env, {
      beforeObjectCall: () => void (this.#counted.objectCalls += 1),
      beforeQuery: () => void (this.#counted.queries += 1),
      afterStatement: (meta) => {
        this.#counted.rowsRead += meta.rows_read;
        this.#counted.rowsWritten += meta.rows_written;
      },
    });
    this.#isolate = startService(vars, this.#bindings);
  }

  /** Replaces the isolate with a new one whose memory is empty. */
  forget(): void {
    this.#isolate = startService(this.#vars, this.#bindings);
  }

  /** Sends a request, and also waits for the background work after the response. */
  async send({ path = "", ...options }: SentRequest = {}) {
    const response = await this.#isolate(`/v1/store/orders${path}`, {
      ...this.#sender,
      ...options,
    });
    const { byteLength: bytes } = await response.arrayBuffer();
    await settle();
    return { etag: response.headers.get("ETag") ?? "", bytes };
  }

  /** From now on, also counts the writes and queries of the Durable Object with this name. */
  async watchObject(name: string): Promise<void> {
    await runInDurableObject(limiterNamed(name), (object, { storage }) => {
      for (const method of ["put", "delete"]) this.#countRows(storage.kv, method);
      for (const method of ["setAlarm", "deleteAll"]) this.#countRows(storage, method);
      Object.assign(object, { env: { ...env, KEYS: this.#bindings.KEYS } });
    });
  }

  async operationsOf(...requests: SentRequest[]): Promise<Operations> {
    Object.assign(this.#counted, NO_OPERATIONS);
    await Promise.all(requests.map((request) => this.send(request)));
    return { ...this.#counted };
  }

  /** Runs the alarm of a Durable Object. Counts the alarm as a call, as Cloudflare bills it. */
  async operationsOfAlarm(name: string): Promise<Operations> {
    Object.assign(this.#counted, NO_OPERATIONS, { objectCalls: 1 });
    if (!(await runDurableObjectAlarm(limiterNamed(name)))) throw new Error("No alarm was set.");
    return { ...this.#counted };
  }

  #countRows(target: any, name: string): void {
    const method = target[name].bind(target);
    target[name] = (...args: unknown[]) => {
      this.#counted.objectRowsWritten += 1;
      return method(...args);
    };
  }
}
