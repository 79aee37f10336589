import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { afterAll, beforeAll, vi } from "vitest";
import { BINDINGS, DATABASE_NAMES } from "../../../src/operator/database/database.ts";
import type { RemoteEnvironment } from "../../../src/operator/arguments.ts";
import { FakeD1Api } from "./fake-d1.ts";
import { FakeVersions, FakeWorkers } from "./fake-workers.ts";
import { type ApiCall, ApiError, type Routes } from "./route.ts";

export const ACCOUNT = "0123456789abcdef0123456789abcdef";
const TOKEN = "fake-token";
const BASE = "/client/v4";

const WORKER_HOST = /\.(?:workers\.dev|shop\.example)$/;

/** Thrown by `interfere` to close the connection without a response. */
export class LostConnection extends Error {
  override readonly message = "the connection is lost";
}

/** If `interfere` throws this, the answer reports success with an empty result. */
export class Lie extends Error {}

/** Makes commands in a test file or `describe` use a fake account that has these environments. */
export function useFakeCloudflare(...environments: readonly RemoteEnvironment[]): FakeCloudflare {
  const cloudflare = new FakeCloudflare();
  beforeAll(async () => {
    await cloudflare.start();
    for (const environment of environments) cloudflare.d1.createStore(environment);
  });
  afterAll(() => cloudflare.stop());
  return cloudflare;
}

/**
 * A fake of the endpoints of Cloudflare's API that the commands and wrangler call, and of deployed
 * Workers. Answers this process's `fetch` directly, and wrangler on a loopback port.
 */
export class FakeCloudflare {
  readonly d1 = new FakeD1Api();
  readonly workers = new FakeWorkers();
  /** The API calls that changed something in the account, such as `deploy store-orders-staging`. */
  readonly changes: string[] = [];
  /**
   * Called before each API call. If it throws an ApiError, this error is the response. If it
   * returns a function, this function is called after the API call, before the response.
   */
  interfere: (call: ApiCall) => void | (() => void) = () => {};
  /** The address of the server, once it is started. */
  origin = "";
  /** The accounts that the API token can access. */
  accounts = [{ id: ACCOUNT, name: "Pets" }];
  readonly #routes: Routes = {
    "GET /accounts": () => this.accounts,
    ...this.d1.routes,
    ...this.workers.routes,
  };
  readonly #realFetch = globalThis.fetch;
  readonly #server = createServer(
    // Keeps idle connections open, because one could be closed just as a command sends a request.
    { keepAliveTimeout: 0 },
    (message, response) => void this.#serve(message, response),
  );

  /** Starts the fake account, and makes the commands use it. */
  async start(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    this.origin = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
    for (const [name, value] of Object.entries(this.environment)) vi.stubEnv(name, value);
    globalThis.fetch = async (input, init) => {
      const { origin, hostname } = new URL(input instanceof Request ? input.url : input);
      const isOwn = origin === this.origin || WORKER_HOST.test(hostname);
      return isOwn ? this.#answer(new Request(input, init)) : this.#realFetch(input, init);
    };
  }

  async stop(): Promise<void> {
    vi.unstubAllEnvs();
    globalThis.fetch = this.#realFetch;
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  clear(): void {
    this.changes.length = 0;
    this.d1.databases.length = 0;
    const { scripts, crons, domains } = this.workers;
    for (const map of [scripts, crons, domains]) map.clear();
  }

  /**
   * Creates a deployed service. `without` is the number of newest migrations its databases lack.
   *
   * @returns the versions of the Worker, and the id of the deployed one.
   */
  deployService(
    env: RemoteEnvironment,
    options: { without?: number; commit?: string | undefined; message?: string } = {},
  ): { versions: FakeVersions; before: string } {
    const name = `store-orders-${env}`;
    if (!this.d1.databases.some((database) => database.name.startsWith(name))) {
      this.d1.createStore(env, options.without);
    }
    const bindings = DATABASE_NAMES.map((database) => {
      const { uuid } = this.d1.find(`${name}-${database}`);
      return { name: BINDINGS[database], type: "d1", id: uuid };
    });
    const versions = new FakeVersions();
    const before = versions.upload("v1.2.0", options.commit, bindings);
    versions.deploy(before, options.message);
    this.workers.scripts.set(name, { bindings, migrationTag: "v1", versions });
    return { versions, before };
  }

  /** The environment variables with which wrangler uses this server. */
  get environment(): Record<string, string> {
    return {
      CLOUDFLARE_API_BASE_URL: this.origin + BASE,
      CLOUDFLARE_API_TOKEN: TOKEN,
      CLOUDFLARE_ACCOUNT_ID: ACCOUNT,
    };
  }

  async #serve(message: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = "", headers, url = "" } = message;
    const body = await buffer(message);
    const init = { method, headers: headers as Record<string, string> };
    const request = new Request(this.origin + url, { ...init, ...(body.length > 0 && { body }) });
    try {
      const answer = await this.#answer(request);
      response.writeHead(answer.status, Object.fromEntries(answer.headers));
      response.end(Buffer.from(await answer.arrayBuffer()));
    } catch {
      response.destroy();
    }
  }

  /** @throws {LostConnection} if the connection closes without a response. */
  async #answer(request: Request): Promise<Response> {
    const { origin, hostname, pathname, searchParams } = new URL(request.url);
    if (WORKER_HOST.test(hostname)) {
      const served = this.workers.serve(hostname, pathname, request.headers);
      const { status, body, version = "" } = served;
      const isAsked = request.headers.get("X-Version") === version;
      return new Response(body, { status, headers: isAsked ? { "X-Version": version } : {} });
    }
    const call: ApiCall = {
      origin,
      method: request.method,
      path: decodeURIComponent(pathname.replace(BASE, "").replace(`/accounts/${ACCOUNT}`, "")),
      query: searchParams,
      form: () => request.formData(),
      body: Buffer.from(await request.clone().arrayBuffer()),
      change: (text) => void this.changes.push(text),
    };
    try {
      const result = await this.#result(call, request.headers.get("Authorization"));
      if (result instanceof Response) return result;
      return Response.json({ success: true, errors: [], result });
    } catch (error) {
      if (error instanceof LostConnection) throw error;
      if (error instanceof Lie) return Response.json({ success: true, errors: [], result: {} });
      const { code, message, status } = error as ApiError;
      const body = { success: false, errors: [{ code, message }], messages: [], result: null };
      // Any other error is a mistake of a test or of this fake.
      return Response.json(body, { status: error instanceof ApiError ? status : 500 });
    }
  }

  async #result(call: ApiCall, authorization: string | null): Promise<unknown> {
    const isSigned = call.path.startsWith("/upload/");
    if (!isSigned && authorization !== `Bearer ${TOKEN}`) {
      throw new ApiError(401, 10000, "Authentication error");
    }
    const interfereAfter = this.interfere(call);
    for (const [route, answer] of Object.entries(this.#routes)) {
      const pattern = new RegExp(`^${route.replaceAll(":", "([^/]+)")}$`);
      const match = pattern.exec(`${call.method} ${call.path}`);
      if (match === null) continue;
      const result = await answer(call, ...match.slice(1));
      interfereAfter?.();
      return result;
    }
    throw new ApiError(404, 7003, `no route for ${call.method} ${call.path}`);
  }
}
