import {
  createExecutionContext,
  runDurableObjectAlarm,
  runInDurableObject,
  waitOnExecutionContext,
} from "cloudflare:test";
import { env } from "cloudflare:workers";
import { createApp } from "../../src/app.ts";
import { type Operations, totalOperations } from "../../src/cli/capacity/operations.ts";
import { parseConfig } from "../../src/config.ts";
import { observedBindings } from "../bench/observed/bindings.ts";
import { limiterNamed } from "../fixtures/limiter.ts";

const NOTHING = totalOperations([]);

interface SentRequest {
  readonly method?: string;
  /** Below the list of orders. */
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The service in one isolate, with everything counted that Cloudflare bills. */
export class CountedService {
  readonly #sender: Readonly<Record<string, string>>;
  readonly #bindings: Cloudflare.Env;
  #counted: { -readonly [Name in keyof Operations]: number } = { ...NOTHING };
  #app = createApp(parseConfig(env));

  constructor({ key, address }: { key?: string; address: string }) {
    this.#sender = {
      "CF-Connecting-IP": address,
      ...(key !== undefined && { Authorization: `Bearer ${key}` }),
    };
    this.#bindings = observedBindings(env, {
      beforeObjectCall: () => void (this.#counted.objectCalls += 1),
      beforeQuery: () => void (this.#counted.queries += 1),
      afterStatement: (meta) => {
        this.#counted.rowsRead += meta.rows_read;
        this.#counted.rowsWritten += meta.rows_written;
      },
    });
  }

  /** Begins anew with an isolate that remembers nothing. */
  forget(): void {
    this.#app = createApp(parseConfig(env));
  }

  /** Sends a request and waits for what goes on after the answer. */
  async send({ method = "GET", path = "", headers = {} }: SentRequest = {}): Promise<{
    etag: string;
  }> {
    const request = new Request(`https://store.example/v1/store/orders${path}`, {
      method,
      headers: { ...this.#sender, ...headers },
    });
    const context = createExecutionContext();
    const response = await this.#app.fetch(request, this.#bindings, context);
    await response.arrayBuffer();
    await waitOnExecutionContext(context);
    return { etag: response.headers.get("ETag") ?? "" };
  }

  /** Counts from now on what the object of that name writes and asks the database. */
  async watchObject(name: string): Promise<void> {
    await runInDurableObject(limiterNamed(name), (object, { storage }) => {
      this.#countRows(storage.kv, "put");
      this.#countRows(storage.kv, "delete");
      this.#countRows(storage, "setAlarm");
      this.#countRows(storage, "deleteAll");
      Object.assign(object, { env: { ...env, DB: this.#bindings.DB } });
    });
  }

  /** Lets the alarm of the object of that name come, which is billed as a call. */
  async alarm(name: string): Promise<void> {
    this.#counted.objectCalls += 1;
    if (!(await runDurableObjectAlarm(limiterNamed(name)))) throw new Error("No alarm was set.");
  }

  async operationsOf(work: () => Promise<unknown>): Promise<Operations> {
    Object.assign(this.#counted, NOTHING);
    await work();
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
