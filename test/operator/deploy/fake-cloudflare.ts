import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { FakeAssetsApi } from "./fake-assets-api.ts";
import { FakeD1Api } from "./fake-d1-api.ts";
import { FakeWorkersApi } from "./fake-workers-api.ts";
import { ApiError } from "./route.ts";
import type { ApiCall, Route } from "./route.ts";

const ACCOUNT = "0123456789abcdef0123456789abcdef";
const TOKEN = "fake-token";
const BASE = "/client/v4";

/**
 * The part of Cloudflare's API that wrangler calls for this project's commands, on a loopback port,
 * with D1 databases of real SQLite. What it does not know it answers with 404.
 */
export class FakeCloudflare {
  readonly d1 = new FakeD1Api(() => this.origin);
  readonly workers = new FakeWorkersApi();
  readonly assets = new FakeAssetsApi();
  /** What has been called, without what only asks: `POST /d1/database/store-orders-staging/query`. */
  readonly changes: string[] = [];
  /** Is shown each call before it is answered; what it throws is the answer. */
  interfere: (call: ApiCall) => void = () => {};
  readonly #routes: readonly Route[] = [
    ...this.d1.routes,
    ...this.workers.routes,
    ...this.assets.routes,
  ];
  readonly #server = createServer((request, response) => void this.#answer(request, response));

  async start(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** The environment in which wrangler talks to this server. */
  get environment(): Record<string, string> {
    return {
      CLOUDFLARE_API_BASE_URL: this.origin + BASE,
      CLOUDFLARE_API_TOKEN: TOKEN,
      CLOUDFLARE_ACCOUNT_ID: ACCOUNT,
    };
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "", this.origin);
    const path = decodeURIComponent(url.pathname.replace(`${BASE}/accounts/${ACCOUNT}`, ""));
    if (url.pathname.startsWith("/workers.dev/")) {
      const { authorization = "" } = request.headers;
      this.workers.requests.push({
        path: url.pathname.slice("/workers.dev".length),
        authorization,
      });
      response.writeHead(this.workers.answer.status).end(this.workers.answer.body);
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
      body = { success: true, errors: [], messages: [], result: await this.#result(request, call) };
      if (path.startsWith("/upload/")) response.setHeader("ETag", this.d1.etag(call));
    } catch (error) {
      const { code, message } = error as ApiError;
      status = error instanceof ApiError ? error.status : 500;
      body = { success: false, errors: [{ code, message }], messages: [], result: null };
    }
    response.writeHead(status, { "Content-Type": "application/json" });
    response.end(JSON.stringify(body));
  }

  async #result(request: IncomingMessage, call: ApiCall): Promise<unknown> {
    const token = call.path === "/workers/assets/upload" ? this.assets.jwt : TOKEN;
    if (!call.path.startsWith("/upload/") && request.headers.authorization !== `Bearer ${token}`) {
      throw new ApiError(401, 10000, "Authentication error");
    }
    this.interfere(call);
    for (const route of this.#routes) {
      const match = route.path.exec(call.path);
      if (route.method !== call.method || match === null) continue;
      const change = route.change?.(call, match[1] ?? "");
      if (change !== undefined) this.changes.push(change);
      return route.answer(call, match[1] ?? "");
    }
    throw new ApiError(404, 7003, `no route for ${call.method} ${call.path}`);
  }
}
