import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { parseArgs } from "node:util";
import { beforeAll, vi } from "vitest";
import type { RemoteEnvironment } from "../../../src/operator/arguments.ts";
import * as wrangler from "../../../src/operator/wrangler.ts";
import { FakeD1Api } from "./fake-d1.ts";
import { FakeWorkers } from "./fake-workers.ts";
import { shortenPauses } from "./faults.ts";
import { type ApiCall, ApiError, type Routes } from "./route.ts";
import { BINDINGS, DATABASE_NAMES } from "../../../src/schema/databases.ts";

const ACCOUNT_ID = "0123456789abcdef0123456789abcdef";
const TOKEN = "fake-token";
const TEXT = { type: "string" } as const;

/** Returns the origin at which a server listens. It keeps no process from ending. */
export async function listen(server: Server): Promise<string> {
  await once(server.listen(0, "127.0.0.1").unref(), "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

export const runRealWrangler = wrangler.runWrangler;

/** Makes commands use a fake account with these environments, a fake wrangler and short pauses. */
export function useFakeCloudflare(...environments: readonly RemoteEnvironment[]): FakeCloudflare {
  const cloudflare = new FakeCloudflare();
  beforeAll(async () => {
    await cloudflare.start();
    for (const environment of environments) cloudflare.d1.createStore(environment);
    vi.spyOn(wrangler, "runWrangler").mockImplementation((args) => cloudflare.runWrangler(args));
    shortenPauses();
  });
  return cloudflare;
}

/** A fake of Cloudflare's API and of deployed Workers, for `fetch`, and for wrangler on a port. */
export class FakeCloudflare {
  d1 = new FakeD1Api();
  workers = new FakeWorkers();
  /** The API calls that changed something in the account, such as `deploy store-orders-staging`. */
  readonly changes: string[] = [];
  /** Called before each API call, and what it returns after it. May throw: see faults.ts. */
  interfere: (call: ApiCall) => void | (() => void) = () => {};
  origin = "";
  readonly accounts = [{ id: ACCOUNT_ID, name: "Pets" }];

  async start(): Promise<void> {
    const server = createServer((message, response) => void this.#serve(message, response));
    this.origin = await listen(server);
    this.logIn();
    const realFetch = globalThis.fetch;
    globalThis.fetch = async (input, init) => {
      const { origin, hostname } = new URL(input instanceof Request ? input.url : input);
      if (origin === this.origin) return this.#answer(new Request(input, init));
      const isWorker = /\.(?:workers\.dev|shop\.example)$/.test(hostname);
      if (isWorker) return this.workers.serve(hostname, new Headers(init?.headers));
      return realFetch(input, init);
    };
  }

  /** Sets the environment variables of commands, also after a test changed them. */
  logIn(): void {
    vi.stubEnv("CLOUDFLARE_API_BASE_URL", this.origin);
    vi.stubEnv("CLOUDFLARE_API_TOKEN", TOKEN);
    vi.stubEnv("CLOUDFLARE_ACCOUNT_ID", ACCOUNT_ID);
  }

  /** Removes all that the account has, and undoes what tests change. */
  clear(): void {
    this.d1 = new FakeD1Api();
    this.workers = new FakeWorkers();
    this.changes.length = 0;
    this.accounts.length = 1;
    this.logIn();
  }

  /** The bindings of a version: the databases, and the var with their jurisdiction. */
  bindings(env: string): object[] {
    const database = (name: string) => this.d1.find(`store-orders-${env}-${name}`);
    const { jurisdiction } = database("keys");
    return [
      ...DATABASE_NAMES.map((name) => ({ name: BINDINGS[name], id: database(name).uuid })),
      ...(jurisdiction === null ? [] : [{ name: "JURISDICTION", text: jurisdiction }]),
    ];
  }

  /** Creates a Worker, and its databases if they are missing; they lack `without` migrations. */
  deployService(env: RemoteEnvironment, { without = 0, tag = "", message = "v1.2.0" } = {}) {
    const worker = `store-orders-${env}`;
    const hasStore = this.d1.databases.some(({ name }) => name.startsWith(worker));
    if (!hasStore) this.d1.createStore(env, without);
    this.workers.scripts.delete(worker);
    const versions = this.workers.find(worker, { mayMake: true });
    const before = versions.upload(this.bindings(env), { "workers/tag": tag });
    versions.deploy(before, message);
    return { versions, before };
  }

  /** Makes an API call with the answer's `result`. @throws {ApiError} as Cloudflare refuses it. */
  async call(methodAndPath: string, body: string | object = {}): Promise<unknown> {
    const [method = "", target = ""] = methodAndPath.split(" ");
    const { pathname, searchParams } = new URL(target, "http://localhost");
    const call: ApiCall = {
      method,
      path: decodeURIComponent(pathname).replace(`/accounts/${ACCOUNT_ID}`, ""),
      query: Object.fromEntries(searchParams),
      body: typeof body === "string" ? body : JSON.stringify(body),
      change: (made) => this.changes.push(made),
    };
    const after = this.interfere(call);
    const routes = { "GET /accounts": this.accounts, ...this.d1.routes, ...this.workers.routes };
    for (const [route, answer] of Object.entries<Routes[string]>(routes)) {
      const pattern = new RegExp(`^${route.replaceAll(":", "([^/]+)")}$`);
      const [matched, ...parts] = pattern.exec(`${method} ${call.path}`) ?? [];
      if (matched === undefined) continue;
      const result = typeof answer === "function" ? answer(call, ...parts) : answer;
      after?.();
      return result;
    }
    throw new ApiError(404, 7003, `no route for ${methodAndPath}`);
  }

  /** Makes the API call that matters of a command of wrangler, which takes two seconds to start. */
  async runWrangler(args: readonly string[]): Promise<string> {
    const options = { env: TEXT, tag: TEXT, message: TEXT, file: TEXT };
    const parsed = parseArgs({ args: [...args], options, strict: false, allowPositionals: true });
    const values = parsed.values as Record<string, string>;
    const { env = "", tag, message, file = "", location, jurisdiction } = values;
    const [command, action = "", name = "", ...rest] = parsed.positionals;
    const token = process.env["CLOUDFLARE_API_TOKEN"];
    if (values["dry-run"]) return "";
    if (!token) throw new Error("Not logged in. Please run `wrangler login` to authenticate.");
    if (command === "auth") return token;
    const script = `/workers/scripts/store-orders-${env}`;
    const annotations = { "workers/tag": tag, "workers/message": message };
    const version = () => ({ bindings: this.bindings(env), annotations });
    const shares = [name, ...rest].map((share) => share.split(/[@%]/));
    const versions = shares.map(([version_id, part]) => ({ version_id, percentage: Number(part) }));
    const executed = () => this.d1.find(`store-orders-${env}-${name.toLowerCase()}`).uuid;
    const calls: Readonly<Record<string, () => [call: string, body: string | object]>> = {
      "deploy ": () => [`PUT ${script}`, version()],
      "versions upload": () => [`POST ${script}/versions`, version()],
      "versions deploy": () => [`POST ${script}/deployments`, { versions, annotations }],
      "triggers deploy": () => [`PUT ${script}/schedules`, [{ cron: "23 * * * *" }]],
      "d1 create": () => ["POST /d1/database", { name, location, jurisdiction }],
      "d1 execute": () => [`POST /d1/database/${executed()}/import`, readFileSync(file, "utf8")],
    };
    const [call, body] = calls[`${command} ${action}`]!();
    const result = (await this.call(call, body)) as { id?: string } | undefined;
    return `Worker Version ID: ${result?.id}\n`;
  }

  async #serve(message: IncomingMessage, response: ServerResponse): Promise<void> {
    const headers = message.headers as Record<string, string>;
    const init = { method: message.method!, headers, body: (await text(message)) || null };
    const answer = await this.#answer(new Request(`http://localhost${message.url}`, init));
    response.writeHead(answer.status, [...answer.headers].flat()).end(await answer.text());
  }

  async #answer(request: Request): Promise<Response> {
    const { method, url, headers } = request;
    try {
      const token = headers.get("Authorization")?.replace("Bearer ", "");
      if (token !== TOKEN) throw new ApiError(401, 10000, "Authentication error");
      const body = await request.text();
      const [, form = body] = /name="metadata"[^]*?\r\n\r\n(.*)\r\n/.exec(body) ?? [];
      const result = await this.call(`${method} ${url}`, form);
      return Response.json({ success: true, errors: [], messages: [], result });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      const { errors, status } = error;
      return Response.json(status < 400 ? { result: {} } : { success: false, errors }, { status });
    }
  }
}
