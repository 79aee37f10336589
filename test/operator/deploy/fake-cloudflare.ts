import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { afterAll, beforeAll, vi } from "vitest";
import type { RemoteEnvironment } from "../../../src/operator/environment.ts";
import { FakeAnalytics } from "./fake-analytics.ts";
import { FakeAssetsApi } from "./fake-assets-api.ts";
import { FakeD1Api } from "./fake-d1-api.ts";
import { FakeWorkersApi } from "./fake-workers-api.ts";
import { ApiError } from "./route.ts";
import type { ApiCall, Route } from "./route.ts";

export const ACCOUNT = "0123456789abcdef0123456789abcdef";
const TOKEN = "fake-token";
const BASE = "/client/v4";

/** Thrown by `interfere` to close the connection without a response. */
export class LostConnection extends Error {
  override readonly message = "the connection is lost";
}

/** Thrown by `interfere` to report success with an empty result. */
export class Lie extends Error {}

/** Matches the hostnames of deployed Workers. */
const WORKER_HOST = /\.(?:workers\.dev|shop\.example)$/;

/** Replaces `fetch` so that requests to deployed Workers go to the fake account. */
export function redirectWorkerHosts(cloudflare: FakeCloudflare): void {
  const realFetch = globalThis.fetch;
  vi.stubGlobal("fetch", (input: string | URL, init?: RequestInit) => {
    const { hostname, pathname, search } = new URL(input);
    const isWorker = WORKER_HOST.test(hostname);
    return realFetch(
      isWorker ? `${cloudflare.addressOf(hostname)}${pathname}${search}` : input,
      init,
    );
  });
}

/**
 * Makes the commands of a test file, or of a `describe`, use a fake account with the databases of
 * these environments.
 */
export function useFakeCloudflare(...environments: readonly RemoteEnvironment[]): FakeCloudflare {
  const cloudflare = new FakeCloudflare();
  beforeAll(async () => {
    await cloudflare.start();
    for (const [name, value] of Object.entries(cloudflare.environment)) vi.stubEnv(name, value);
    for (const environment of environments) cloudflare.d1.createStore(environment);
  });
  afterAll(async () => {
    vi.unstubAllEnvs();
    await cloudflare.stop();
  });
  return cloudflare;
}

/**
 * A fake of Cloudflare's API on a loopback port, with the endpoints that this project's commands
 * and wrangler call. Its D1 databases are real SQLite databases. Unknown API calls get status 404.
 */
export class FakeCloudflare {
  readonly d1 = new FakeD1Api(() => this.origin);
  readonly workers = new FakeWorkersApi();
  readonly assets = new FakeAssetsApi();
  readonly analytics = new FakeAnalytics();
  /** The API calls that changed something in the account, such as `deploy store-orders-staging`. */
  readonly changes: string[] = [];
  /**
   * Called before each API call. If it throws an ApiError, this error is the response. The function
   * that it returns is called after the API call, before its response.
   */
  interfere: (call: ApiCall) => void | (() => void) = () => {};
  /** The accounts that the API token can access. */
  accounts = [{ id: ACCOUNT, name: "Pets" }];
  readonly #routes: readonly Route[] = [
    { method: "GET", path: /^\/accounts$/, answer: () => this.accounts },
    {
      method: "GET",
      path: /^\/memberships$/,
      answer: () => this.accounts.map((account) => ({ account })),
    },
    { method: "GET", path: /^\/user$/, answer: () => ({ email: "ada@example.com" }) },
    { method: "GET", path: /^\/user\/tokens\/verify$/, answer: () => ({ id: "1" }) },
    ...this.d1.routes,
    ...this.workers.routes,
    ...this.assets.routes,
    ...this.analytics.routes,
  ];
  // Keeps idle connections open: on a busy machine, a command could send a request on a connection
  // just as the server closes it, and the request would fail.
  readonly #server = createServer(
    { keepAliveTimeout: 0 },
    (request, response) => void this.#answer(request, response),
  );

  async start(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** Removes all Workers and databases. */
  clear(): void {
    this.changes.length = 0;
    this.d1.databases.length = 0;
    const { scripts, crons, domains } = this.workers;
    for (const map of [scripts, crons, domains]) map.clear();
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Returns the URL at which this server responds to requests for a deployed Worker. */
  addressOf(hostname: string): string {
    return `${this.origin}/hosts/${hostname}`;
  }

  /** The environment variables with which wrangler uses this server. */
  get environment(): Record<string, string> {
    return {
      CLOUDFLARE_API_BASE_URL: this.origin + BASE,
      CLOUDFLARE_API_TOKEN: TOKEN,
      CLOUDFLARE_ACCOUNT_ID: ACCOUNT,
    };
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "", this.origin);
    const path = decodeURIComponent(
      url.pathname.replace(BASE, "").replace(`/accounts/${ACCOUNT}`, ""),
    );
    const [, hostname, rest] = /^\/hosts\/([^/]+)(\/.*)$/.exec(url.pathname) ?? [];
    if (hostname !== undefined && rest !== undefined) {
      const answer = this.workers.serve(hostname, new URL(rest, this.origin), {
        authorization: request.headers.authorization ?? "",
        overrides: String(request.headers["cloudflare-workers-version-overrides"] ?? ""),
      });
      const isAsked = request.headers["x-version"] === answer.version;
      response.writeHead(answer.status, isAsked ? { "X-Version": answer.version } : {});
      response.end(answer.body);
      return;
    }
    if (url.pathname.startsWith("/download/")) {
      response.end(this.d1.download(url.pathname.slice("/download/".length)));
      return;
    }
    const call: ApiCall = {
      method: request.method ?? "",
      path,
      query: url.searchParams,
      contentType: request.headers["content-type"] ?? "",
      body: await buffer(request),
    };
    let status = 200;
    let body: object;
    try {
      body = await this.#result(request, call);
      if (path.startsWith("/upload/")) response.setHeader("ETag", this.d1.etag(call));
    } catch (error) {
      if (error instanceof LostConnection) return void response.destroy();
      if (error instanceof Lie)
        return void response.end('{"success":true,"errors":[],"result":{}}');
      const { code, message } = error as ApiError;
      status = error instanceof ApiError ? error.status : 500;
      body = { success: false, errors: [{ code, message }], messages: [], result: null };
    }
    response.writeHead(status, { "Content-Type": "application/json" });
    response.end(JSON.stringify(body));
  }

  async #result(request: IncomingMessage, call: ApiCall): Promise<object> {
    const token = call.path === "/workers/assets/upload" ? this.assets.jwt : TOKEN;
    if (!call.path.startsWith("/upload/") && request.headers.authorization !== `Bearer ${token}`) {
      throw new ApiError(401, 10000, "Authentication error");
    }
    const interfereAfter = this.interfere(call);
    for (const route of this.#routes) {
      const match = route.path.exec(call.path);
      if (route.method !== call.method || match === null) continue;
      const change = route.change?.(call, match[1] ?? "");
      if (change !== undefined) this.changes.push(change);
      const result = await route.answer(call, match[1] ?? "");
      interfereAfter?.();
      return route.isRaw ? Object(result) : { success: true, errors: [], messages: [], result };
    }
    throw new ApiError(404, 7003, `no route for ${call.method} ${call.path}`);
  }
}
