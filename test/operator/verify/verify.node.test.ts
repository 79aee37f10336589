import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { beforeAll, beforeEach, expect, it, vi } from "vitest";
import { openApiDocument } from "../../../src/openapi/document.ts";
import * as databases from "../../../src/operator/database/database.ts";
import { databaseFile } from "../../../src/operator/database/local-store.ts";
import * as stores from "../../../src/operator/database/open.ts";
import { addKeys } from "../../../src/operator/keys/change-key.ts";
import { createVerificationKey } from "../../../src/operator/keys/key-changes.ts";
import { verifyProgram } from "../../../src/operator/verify/program.ts";
import { PROMISES } from "../../../src/operator/verify/promises.ts";
import type {
  Clock,
  PromiseResult,
  Send,
  Surroundings,
} from "../../../src/operator/verify/service-promise.ts";
import {
  type StoreVerifyOptions,
  verify,
  verifyStore,
} from "../../../src/operator/verify/verify.ts";
import * as wrangler from "../../../src/operator/wrangler.ts";
import { INT64_MAX, INT64_MIN } from "../../../src/rules/int64.ts";
import type { Server } from "../../support/server.ts";
import { advanceClock, CLOCKED_SERVICE, ServedStore } from "../../process/worker-server.ts";
import { useFakeCloudflare } from "../deploy/fake-cloudflare.ts";
import { runFakeWrangler } from "../deploy/fake-wrangler.ts";
import { LostConnection, shortenPauses } from "../deploy/faults.ts";
import { type Outcome, runCommand } from "../deploy/run-command.ts";
import { failure, runInProcess } from "../in-process.ts";
import { SABOTAGES } from "./sabotages.ts";

const ORDERS = `{"id":1,"petId":2,"quantity":3,"shipDate":"2026-11-20T08:30:00.000Z","complete":true}
{"id":2}
{"id":9223372036854775807,"status":"shipped"}
`;
const STAGING = "https://store-orders-staging.example.workers.dev";
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
const HOUR_MS = 3_600_000;

interface Recorded {
  readonly response: Response;
  readonly atMs: number;
}

const cloudflare = useFakeCloudflare("staging");
const folder = new ServedStore();
const open = (name: databases.DatabaseName) =>
  new DatabaseSync(databaseFile(folder.path, name), { timeout: 5_000 });
let service: Server;
let url: string;
let aheadMs = 0;
/** The time of the databases, if it stands still. */
let databaseMs: number | undefined;
let startMs: number;
/** The responses to the requests for each promise. Repeating them is ten times as fast. */
const recorded: Recorded[][] = [];

/** Moves the service's clock forward instead of waiting. */
const clock: Clock = {
  now: () => Date.now() + aheadMs,
  wait: async (milliseconds, signal) => {
    signal.throwIfAborted();
    aheadMs += milliseconds;
    await advanceClock(service, milliseconds / 1_000);
  },
};

beforeAll(async () => {
  await folder.ordersJson(["import", "-"], ORDERS);
  await folder.keysJson("list");
  service = await folder.serve(CLOCKED_SERVICE);
  url = service.url;
  // Staging has the databases of the local service, which answers for it.
  for (const name of databases.DATABASE_NAMES) {
    Object.assign(cloudflare.d1.find(`store-orders-staging-${name}`), { sqlite: open(name) });
  }
  cloudflare.workers.find("store-orders-staging", { mayMake: true });
  vi.spyOn(wrangler, "runWrangler").mockImplementation(runFakeWrangler);
  vi.spyOn(databases, "databaseTime").mockImplementation(async () => {
    return new Date(databaseMs ?? clock.now());
  });
  // Each verification draws the same id for its order.
  const drawn = crypto.getRandomValues.bind(crypto);
  vi.spyOn(crypto, "getRandomValues").mockImplementation((array) => {
    return array instanceof Uint32Array ? array.fill(7) : drawn(array);
  });
  shortenPauses();
  await record();
});

beforeEach(() => void (databaseMs = undefined));

/** Sends requests to the service. Returns static files itself, because the service has none. */
const sendToService: Send = async (address, init) => {
  const { pathname } = new URL(address);
  const html = { headers: { "Content-Type": "text/html; charset=utf-8" } };
  if (pathname === "/") return new Response("<!doctype html>", html);
  if (pathname === "/openapi.json") return new Response(openApiDocument());
  return fetch(address.replace(STAGING, url), init);
};

let runs = 0;
/** Returns a new client address, because the service limits failed authentications by address. */
const newClient = () => `2001:db8:0:${(runs += 1)}::1`;

/** Verifies the service with a new key. By default, uses up no limit and places no order. */
function verifyService(options: Partial<StoreVerifyOptions> = {}) {
  const headers = { "CF-Connecting-IP": newClient() };
  const common = { url, store: { persistTo: folder.path }, headers, clock, send: sendToService };
  return verifyStore({ ...common, isReadOnly: true, ...options });
}

function runVerify(
  args: readonly string[],
  { input, ...surroundings }: Partial<Surroundings> & { readonly input?: string } = {},
): Promise<Outcome> {
  const { send = sendToService } = surroundings;
  const client = newClient();
  const sendFrom: Send = (address, init) => {
    const headers = new Headers(init.headers);
    headers.set("CF-Connecting-IP", client);
    return send(address, { ...init, headers });
  };
  return runInProcess(verifyProgram({ clock, ...surroundings, send: sendFrom }), args, input);
}

const local = () => ["--persist-to", folder.path, "--url", url];
const staging = (surroundings?: Surroundings) =>
  runVerify(["--env", "staging", "--write"], surroundings);

/** Runs a statement on a database of the store, and returns the values of all rows. */
function rows(name: databases.DatabaseName, query: string): unknown[] {
  using sqlite = open(name);
  return sqlite.prepare(query).all().flatMap(Object.values);
}

/** Expects that verifications have left no key and no order, cancelled or not. */
function expectNothingLeft(label?: string) {
  expect(rows("keys", "SELECT id FROM api_keys WHERE name = 'Verification'"), label).toEqual([]);
  const left = "SELECT CAST(id AS TEXT) FROM orders UNION ALL SELECT id FROM cancelled_orders";
  expect(rows("orders", left), label).toEqual(["1", "2", "9223372036854775807"]);
}

function removeRows(): void {
  for (const table of ["api_keys", "key_usage", "key_bans"]) rows("keys", `DELETE FROM ${table}`);
  for (const table of ["orders", "cancelled_orders"])
    rows("orders", `DELETE FROM ${table} WHERE id < 0`);
}

const broken = (promises: readonly PromiseResult[]) =>
  promises.filter(({ result }) => result === "broken").map(({ promise }) => promise);

/** Records a verification that uses up a limit and places an order. */
async function record(): Promise<void> {
  startMs = databaseMs = clock.now();
  let promise = 0;
  const send: Send = async (address, init) => {
    const received = await sendToService(address, init);
    const response = new Response((await received.text()) || null, received);
    (recorded[promise] ??= []).push({ response, atMs: clock.now() });
    return response.clone();
  };
  const report = () => void (promise += 1);
  const all = { isReadOnly: false, isWriting: true, send, report };
  expect(broken(await verifyService(all))).toEqual([]);
}

/** Repeats the recorded responses to the requests for each promise, at the recorded times. */
class Replay implements Surroundings {
  readonly #responses: readonly (readonly Recorded[])[];
  #nowMs = startMs;
  promise = 0;
  #index = 0;

  constructor(responses = recorded) {
    this.#responses = responses;
    databaseMs = startMs;
  }

  readonly clock: Clock = {
    now: () => this.#nowMs,
    wait: async (milliseconds, signal) => {
      signal.throwIfAborted();
      this.#nowMs += milliseconds;
    },
  };

  readonly send: Send = async (_, { headers }) => {
    const responses = this.#responses[this.promise] ?? [];
    const { response, atMs } = responses[this.#index++] ?? responses.at(-1)!;
    this.#nowMs = Math.max(this.#nowMs, atMs);
    const repeated = response.clone();
    const id = new Headers(headers).get("X-Request-Id");
    if (id !== null) repeated.headers.set("X-Request-Id", id);
    return repeated;
  };

  readonly report = () => {
    this.promise += 1;
    this.#index = 0;
  };

  verify(options: Partial<StoreVerifyOptions>): Promise<readonly PromiseResult[]> {
    const { send, clock: own, report } = this;
    const all = { isReadOnly: false, isWriting: true, send, clock: own, report, ...options };
    return verifyService(all);
  }
}

it(
  "a signal or a lost connection at any step leaves nothing, and then the same command again ends",
  { timeout: 120_000 },
  async () => {
    /** Runs the command with a fault at one step: an API call, a request or a wait. */
    const runWith = async (fault: string, position: number) => {
      // The command first asks whether the service is healthy.
      const { send, clock: replayed } = new Replay([[recorded[0]![0]!, ...recorded.flat()]]);
      const steps: string[] = [];
      const signal = SIGNALS[position % SIGNALS.length] ?? "SIGINT";
      const others = process.listeners(signal);
      const lose = () => {
        throw new LostConnection();
      };
      const step = (name: string) => {
        if (steps.push(name) - 1 !== position) return undefined;
        // A real signal would also reach Miniflare. npm sends Ctrl+C twice.
        const own = process.listeners(signal).filter((listener) => !others.includes(listener));
        if (fault === "signal") for (const listener of [...own, ...own]) listener(signal);
        if (fault === "lost before") lose();
        return fault === "lost after" ? lose : undefined;
      };
      cloudflare.interfere = ({ path }) => step(`API ${path}`);
      const outcome = await staging({
        clock: { ...replayed, wait: (...args) => (step("wait"), replayed.wait(...args)) },
        send: async (address, init) => {
          const own = [...new Headers(init.headers)].filter(([name]) => name !== "x-request-id");
          const after = step(`${init.method} ${address} ${own.join()}`);
          init.signal?.throwIfAborted();
          const response = await send(address, init);
          after?.();
          return response;
        },
      });
      cloudflare.interfere = () => {};
      expect(process.listeners(signal)).toEqual(others);
      return { ...outcome, steps };
    };
    const { status, stdout, steps } = await runWith("none", -1);
    expect([status, stdout]).toEqual([0, expect.not.stringContaining("✘")]);
    for (const fault of ["signal", "lost before", "lost after"]) {
      for (const [position, name] of steps.entries()) {
        // Of simultaneous requests, only the first is disturbed.
        const isApi = name.startsWith("API");
        if (!isApi && (fault === "lost after" || name === steps[position - 1])) continue;
        const outcome = await runWith(fault, position);
        const label = `${fault} at ${position}, ${name}: ${outcome.stdout}${outcome.stderr}`;
        expectNothingLeft(label);
        if (fault !== "signal" || outcome.status === 0) continue;
        expect(outcome.stderr, label).toMatch(/^error: ended by SIG\w+ before everything was/);
      }
    }
    databaseMs = undefined;
    expect((await staging()).status).toBe(0);
    expectNothingLeft();
  },
);

it.for(SABOTAGES)(
  "a service that breaks a promise breaks only it: %s",
  async ([title, sabotage]) => {
    const replay = new Replay();
    const isReadOnly = !/^(?:Of 200|A request over)/.test(title);
    const promises = await replay.verify({ send: sabotage(replay.send), isReadOnly });
    expect(promises.filter(({ result }) => result === "broken")).toEqual([
      {
        promise: expect.stringMatching(new RegExp(`^${title}`)),
        result: "broken",
        reason: expect.stringMatching(/^(?!.*sord_\w).+ \(request .+\)$/),
      },
    ]);
  },
);

it("each promise has a sabotage that breaks it", () => {
  const isSabotaged = (promise: string) => SABOTAGES.some(([title]) => promise.startsWith(title));
  expect(Object.keys(PROMISES).filter((promise) => !isSabotaged(promise))).toEqual([]);
});

it("a request that was sent within 30 seconds of the revocation may be answered later", async () => {
  const replay = new Replay();
  const lasts = recorded.at(-1)!;
  let sent = 0;
  const send: Send = async (address, init) => {
    const response = await replay.send(address, init);
    // The next response to the revoked key is 401.
    const isLast304 = replay.promise === recorded.length - 1 && ++sent === lasts.length - 1;
    if (isLast304) await replay.clock.wait(31_000, init.signal!);
    return response;
  };
  const promises = await replay.verify({ send });
  expect(promises.at(-1)).toEqual({ promise: expect.stringMatching(/^A revoked/), result: "kept" });
});

it("an answer of another version ends the verification, whichever it is", async () => {
  const version = "3f1c6f5e-6f0d-4f1e-9a86-0c8c5a4a1b2d";
  /** Verifies a service that confirms the version in all responses but one. */
  const tryWithout = async (position: number) => {
    const replay = new Replay();
    let answers = 0;
    const send: Send = async (address, init) => {
      expect(new Headers(init.headers).get("X-Version")).toBe(version);
      const response = await replay.send(address, init);
      response.headers.set("X-Version", answers++ === position ? "another" : version);
      return response;
    };
    expect(broken(await replay.verify({ send, version }))).toEqual([]);
    return answers;
  };
  const count = await tryWithout(-1);
  for (const position of [0, 1, 100, count - 1]) {
    await expect(tryWithout(position)).rejects.toThrow(`not answered by the version ${version}`);
  }
});

it("a list without end is read as far as necessary, and then ended", async () => {
  const replay = new Replay();
  let under = 0;
  const endless = () => {
    let id = 0;
    under += 1;
    return new ReadableStream({
      pull: (controller) => {
        const orders = Array.from({ length: 500 }, () => `{"id":${(id += 1)},"complete":true}`);
        controller.enqueue(new TextEncoder().encode(`${id === 500 ? "[" : ","}${orders.join()}`));
      },
      cancel: () => void (under -= 1),
    });
  };
  const send: Send = async (address, init) => {
    const response = await replay.send(address, init);
    return response.status === 200 && init.method === "GET" && address.endsWith("/orders")
      ? new Response(endless(), response)
      : response;
  };
  const orders = { id: 1_000n, json: '{"id":1000,', shippedId: 4_000n };
  const promises = await verify({ ...replay, url, key: "", orders, send });
  // The order is listed, also after its cancellation.
  expect(broken(promises)).toEqual(["A list that begins after a cancellation lacks the order"]);
  expect(under).toBe(0);
});

it("prints a line for each promise, and leaves nothing", async () => {
  const { status, stdout, stderr } = await runVerify([...local(), "--write"]);
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  const lines = stdout.trimEnd().split("\n");
  expect(lines[0]).toBe(`Verifying ${url}, for up to two minutes ...`);
  expect(lines.slice(1, -1)).toEqual(Object.keys(PROMISES).map((promise) => `✔ ${promise}`));
  expect(lines.at(-1)).toMatch(/^\d+ promises kept, 0 broken, 0 not tried\.$/);
  expectNothingLeft();
  expect((await folder.orders(["export"])).stdout).toContain('{"id":1,"petId":2,');
});

it("with --read-only uses up no limit, writes nothing, and lists untried promises", async () => {
  const { status, stdout } = await runVerify([...local(), "--read-only", "--json"]);
  const { promises, ...result } = JSON.parse(stdout) as { promises: PromiseResult[] };
  expect({ status, ...result }).toEqual({ status: 0, url, isKept: true });
  const untried = promises.filter((promise) => promise.result === "untried");
  expect(new Set(untried.map(({ reason }) => reason))).toEqual(
    new Set(["uses up the key's minute", "no request was refused", "places an order: add --write"]),
  );
  expectNothingLeft();
});

it.each([
  ["pro"],
  // With equal limits, both windows have the same number of requests left.
  ["enterprise", "--per-minute", "100", "--per-day", "100"],
])("with a key from stdin neither revokes the key nor places orders: %s", async (...plan) => {
  const { key } = await folder.keysJson("create", "--name", "Customer", "--plan", ...plan);
  const { status, stdout } = await runVerify(["--url", url], { input: `${key}\n` });
  expect(status).toBe(0);
  expect(stdout).toMatch(/^– Of 200 simultaneous requests.*: needs a new Free key$/m);
  expect(stdout).toContain("– A revoked key stops working within 30 seconds");
  expect(stdout).not.toContain(key);
});

it("exits with status 1 and prints the request's id if a promise is broken", async () => {
  const [, sabotage] = SABOTAGES.find(([title]) => title === "Any other method returns")!;
  const args = [...local(), "--read-only"];
  const { status, stdout } = await runVerify(args, { send: sabotage(sendToService) });
  expect(status).toBe(1);
  expect(stdout).toMatch(
    /^✘ Any other method returns .*: Allow is DELETE, not GET, HEAD \(request verify-[\w-]{36}\)$/m,
  );
  expect(stdout).toMatch(/^\d+ promises kept, 1 broken, \d+ not tried\.$/m);
});

it("finds the port of the service in its store, and makes no key for anything else", async () => {
  const args = ["--persist-to", folder.path, "--read-only"];
  const serveOn = (port: string) =>
    writeFileSync(join(folder.path, "service.json"), `{"pid":${process.pid},"port":${port}}`);
  const { port } = new URL(url);
  serveOn(port);
  expect((await runVerify(args)).stdout).toContain(`Verifying http://127.0.0.1:${port}, for up to`);
  serveOn("1");
  const changes = rows("keys", "SELECT count(*) FROM key_changes");
  expect(await runVerify(args, { send: fetch })).toEqual(
    failure(". Start the service, or name its address with --url\n"),
  );
  const isOther = "no healthy service at http://127.0.0.1:1: the answer is 404 <html>, not 200";
  const send = async () => new Response("<html>", { status: 404 });
  expect(await runVerify(args, { send })).toEqual(failure(isOther));
  expect(rows("keys", "SELECT count(*) FROM key_changes")).toEqual(changes);
});

it("stops at the first 401 if the service does not know the keys of the store", async () => {
  const statuses: number[] = [];
  const send: Send = async (address, init) => {
    const headers = new Headers(init.headers);
    if (headers.has("Authorization")) headers.set("Authorization", "Bearer of another store");
    const response = await sendToService(address, { ...init, headers });
    statuses.push(response.status);
    return response;
  };
  const { status, stdout, stderr } = await runVerify(["--env", "staging"], { send });
  expect(status).toBe(1);
  expect(stdout).toContain(`Verifying ${STAGING}, `);
  expect(stdout).not.toContain("✘");
  expect(stderr).toContain(`the service at ${STAGING} does not know the key: `);
  expect(statuses).toEqual([200, 200, 401]);
  expectNothingLeft();
});

it.each([
  [["--url", "https://shop.example", "--write"], 2, "--write needs the store"],
  [["--url", "https://shop.example/v1"], 2, "an address without a path"],
  [["--url", "shop.example"], 2, "an address without a path"],
  [["--write", "--read-only"], 2, "cannot be used with"],
  [["--env", "staging", "--persist-to", "x"], 2, "cannot be used with"],
  [["production"], 2, "too many arguments"],
  [["--persist-to", "/nowhere"], 1, "there is no store in /nowhere, so nothing was done"],
  [["--env", "production", "--write"], 1, "nothing was changed, because there is no terminal"],
])("refuses %j with status %i", async (args, status, message) => {
  expect(await runVerify(args)).toEqual(failure(message, status));
});

it("refuses standard input that is not an API key", async () => {
  const { status, stderr } = await runVerify(["--url", url], { input: "sord_abc" });
  expect([status, stderr]).toEqual([1, expect.stringContaining("standard input holds no API key")]);
});

it("as typed, fails once if its output is full, and leaves nothing", async () => {
  const line = `"$NODE" src/operator/main.ts verify --read-only --persist-to "$STORE" --url ${url} > /dev/full`;
  const env = { NODE: process.execPath, STORE: folder.path };
  const { status, stderr } = await runCommand("bash", ["-c", line], { env });
  expect([status, stderr.match(/error: .*/g)]).toEqual([
    1,
    [expect.stringContaining("the output: no space left")],
  ]);
  expectNothingLeft();
});

it.each([-2, 0, 2])(
  "removes what killed verifications left an hour ago, and nothing else, on a machine whose clock is %i hours ahead",
  async (hours) => {
    const key = (ageMs: number, more: object = {}) => {
      const { record: created } = createVerificationKey(new Date(clock.now() - ageMs));
      return { ...created, ...more };
    };
    const order = (id: bigint, ageMs: number) =>
      `INSERT INTO orders VALUES (${INT64_MIN + id}, ${INT64_MAX}, ${INT64_MIN},
        '${new Date(Date.now() - ageMs).toISOString()}', 0, 'pending')`;
    const expired = new Date(clock.now() - HOUR_MS);
    const others = [
      key(0),
      // The operator's own ended keys that are named like those of verifications.
      key(HOUR_MS, { expiresAt: expired }),
      key(HOUR_MS, { expiresAt: null, revokedAt: expired }),
    ];
    const all = [key(HOUR_MS), ...others];
    removeRows();
    const store = { persistTo: folder.path };
    await stores.useDatabase(store, "keys", (database) => addKeys(database, all));
    for (const { id } of all) {
      rows(
        "keys",
        `INSERT INTO key_usage VALUES ('${id}', '2026-11-20', 1, 0, 0, 0, 1, 1, 60, 9, 0)`,
      );
      rows("keys", `INSERT INTO key_bans VALUES ('${id}', 0, 1, 1, NULL)`);
    }
    rows("orders", order(5n, HOUR_MS - 60_000));
    rows("orders", order(6n, HOUR_MS + 60_000));
    const ahead = { ...clock, now: () => clock.now() + hours * HOUR_MS };
    const statuses: number[] = [];
    const send: Send = async (address, init) => {
      const response = await sendToService(address, init);
      if (/sord_/.test(new Headers(init.headers).get("Authorization") ?? "")) {
        statuses.push(response.status);
      }
      return response;
    };
    await verifyService({ isWriting: true, clock: ahead, send });
    expect(statuses[0]).toBe(304);
    for (const ids of ["id FROM api_keys", "key_id FROM key_usage", "key_id FROM key_bans"]) {
      const left = rows("keys", `SELECT ${ids}`).toSorted();
      expect(left).toEqual(others.map(({ id }) => id).toSorted());
    }
    expect(rows("orders", `SELECT id + ${INT64_MAX} FROM orders WHERE id < 0`)).toEqual([4]);
    removeRows();
  },
);

it.each([0, 1, 2, 3, 4])(
  "with a full disk from use %i of a database on, names what remains",
  async (full) => {
    let uses = 0;
    const { useDatabase } = stores;
    const using = vi.spyOn(stores, "useDatabase").mockImplementation(async (...work) => {
      if (uses++ >= full) throw new Error("the disk is full");
      return useDatabase(...work);
    });
    const left = (what: string) =>
      `the ${what} of this verification is not removed; another one removes it an hour later: the disk is full`;
    const lines = ["the disk is full", left("key key_\\w{16}"), left("order -\\d+")];
    // Before the first use, nothing was made; after the last one, everything was verified.
    const expected = { 0: lines.slice(0, 1), 4: lines.slice(1) }[full] ?? lines;
    await expect(verifyService({ isWriting: true })).rejects.toThrow(
      new RegExp(`^${expected.join("\n")}$`),
    );
    using.mockRestore();
    removeRows();
  },
);

it("removes no order of the store, even if its own order was to get the same id", async () => {
  rows("orders", `INSERT INTO orders (id) VALUES (${INT64_MIN + 7n})`);
  await expect(verifyService({ isWriting: true })).rejects.toThrow("UNIQUE");
  expect(rows("orders", "DELETE FROM orders WHERE id < 0 RETURNING 1")).toEqual([1]);
});

it("is not red if many verifications from one address use up its bad credentials", async () => {
  const headers = { "CF-Connecting-IP": "2001:db8:1::1" };
  const verified = await Promise.all(Array.from({ length: 7 }, () => verifyService({ headers })));
  const promises = verified.flat();
  expect(broken(promises)).toEqual([]);
  const reasons = promises.map(({ reason }) => reason);
  expect(reasons).toContain("this address has sent too many bad credentials");
});

it("a service that cannot be reached gets only one request, and is reported once", async () => {
  const send = vi.fn<Send>(async () => {
    throw new TypeError("fetch failed", { cause: new Error("connect ECONNREFUSED") });
  });
  await expect(verifyService({ send })).rejects.toThrow(/healthz has no .*: connect ECONNREFUSED/);
  expect(send).toHaveBeenCalledOnce();
});
