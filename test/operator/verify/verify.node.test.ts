import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { eq, inArray, sql } from "drizzle-orm";
import { beforeAll, describe, expect, it, vi } from "vitest";
import { apiKeys, keyBans, keyUsage } from "../../../src/schema/keys.ts";
import { openLocalDatabase } from "../../../src/operator/database/local.ts";
import { useDatabase } from "../../../src/operator/database/open.ts";
import * as administration from "../../../src/operator/keys/key-changes.ts";
import { addKeys } from "../../../src/operator/keys/change-key.ts";
import { type Surroundings, verifyProgram } from "../../../src/operator/verify/program.ts";
import type { Clock, PromiseResult, Send } from "../../../src/operator/verify/service-promise.ts";
import {
  type StoreVerifyOptions,
  verify,
  verifyStore,
} from "../../../src/operator/verify/verify.ts";
import * as wrangler from "../../../src/operator/wrangler.ts";
import { openApiDocument } from "../../../src/openapi/document.ts";
import { advanceClock, CLOCKED_SERVICE, ServedStore } from "../../process/worker-server.ts";
import type { Server } from "../../bench/server.ts";
import { LostConnection, useFakeCloudflare } from "../deploy/fake-cloudflare.ts";
import { FakeVersions } from "../deploy/fake-workers.ts";
import { runFakeWrangler } from "../deploy/fake-wrangler.ts";
import { type Outcome, runCommand } from "../deploy/run-command.ts";
import { failure, runInProcess } from "../in-process.ts";
import { LIMIT_SABOTAGES, ORDER_SABOTAGES, SABOTAGES } from "./sabotages.ts";

const HTML = { headers: { "Content-Type": "text/html; charset=utf-8" } };
const ORDERS = `{"id":1,"petId":2,"quantity":3,"shipDate":"2026-11-20T08:30:00.000Z","complete":true}
{"id":2}
{"id":9223372036854775807,"status":"shipped"}
`;

const cloudflare = useFakeCloudflare("staging");
const folder = new ServedStore();
let service: Server;
let url: string;
beforeAll(async () => {
  await folder.ordersJson(["import", "-"], ORDERS);
  service = await folder.serve(CLOCKED_SERVICE);
  url = service.url;
  vi.spyOn(wrangler, "runWrangler").mockImplementation(runFakeWrangler);
});

let aheadMs = 0;
/** Moves the service's clock forward instead of waiting. */
const clock: Clock = {
  now: () => Date.now() + aheadMs,
  wait: async (milliseconds, signal) => {
    signal.throwIfAborted();
    aheadMs += milliseconds;
    await advanceClock(service, milliseconds / 1_000);
  },
};

/** Sends a request to the service. Returns static files itself, because the service has none. */
const sendToService: Send = async (address, init) => {
  const { pathname } = new URL(address);
  if (pathname === "/") return new Response("<!doctype html>", HTML);
  if (pathname === "/openapi.json") return new Response(openApiDocument());
  return fetch(address, init);
};

let runs = 0;
/** Returns a new client address, because the service limits failed authentications by address. */
const newClient = () => `2001:db8:0:${(runs += 1)}::1`;

const useLocal: StoreVerifyOptions["useDatabase"] = (...work) =>
  useDatabase({ persistTo: folder.path }, ...work);

/** Verifies the service with a new key. By default, uses up no limit and places no order. */
function verifyService(options: Partial<StoreVerifyOptions>) {
  const headers = { "CF-Connecting-IP": newClient() };
  const common = {
    url,
    useDatabase: useLocal,
    headers,
    clock,
    send: sendToService,
    isReadOnly: true,
  };
  return verifyStore({ ...common, ...options });
}

function runVerify(
  args: readonly string[],
  { input, ...surroundings }: Partial<Surroundings> & { readonly input?: string } = {},
): Promise<Outcome> {
  const { send = sendToService } = surroundings;
  const from = { "CF-Connecting-IP": newClient() };
  const sendFrom: Send = (address, init) => {
    return send(address, {
      ...init,
      headers: { ...from, ...Object.fromEntries(new Headers(init.headers)) },
    });
  };
  return runInProcess(verifyProgram({ clock, ...surroundings, send: sendFrom }), args, input);
}

function verifyLocal(args: readonly string[], surroundings?: Partial<Surroundings>) {
  return runVerify(["--persist-to", folder.path, "--url", url, ...args], surroundings);
}

/** Returns the states of the keys that verifications have left. */
async function keyStates(): Promise<string[]> {
  const keys: { state: string }[] = await folder.keysJson("list", "--name", "Verification");
  return keys.map(({ state }) => state);
}

const exportOrders = async () => (await folder.orders(["export"])).stdout;

describe("npm run verify on a local store", () => {
  it("prints a line for each promise, and leaves nothing", async () => {
    const before = await exportOrders();
    const { status, stdout, stderr } = await verifyLocal(["--write"]);
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    const lines = stdout.trimEnd().split("\n");
    expect(lines[0]).toBe(`Verifying ${url}, for up to two minutes ...`);
    expect(lines.at(-1)).toMatch(/^\d+ promises kept, 0 broken, 0 not tried, in \d+ s\.$/);
    expect(lines.slice(1, -1).filter((line) => !line.startsWith("✔ "))).toEqual([]);
    expect(lines.length).toBeGreaterThan(30);
    expect(await keyStates()).toEqual([]);
    expect(await exportOrders()).toBe(before);
  });

  it("with --read-only uses up no limit, writes nothing, and lists untried promises", async () => {
    const before = await exportOrders();
    const { status, stdout } = await verifyLocal(["--read-only", "--json"]);
    expect(status).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ url: url, isKept: true });
    const { promises } = JSON.parse(stdout) as { promises: { result: string; reason?: string }[] };
    const untried = promises.filter(({ result }) => result === "untried");
    expect(new Set(untried.map(({ reason }) => reason))).toEqual(
      new Set(["uses up the key's minute", "places an order: add --write"]),
    );
    expect(await exportOrders()).toBe(before);
    expect(await keyStates()).toEqual([]);
  });

  it("exits with status 1 and prints the request id if a promise is broken", async () => {
    const send: Send = async (address, init) => {
      const response = await sendToService(address, init);
      if (!address.endsWith("/healthz")) return response;
      return Response.json({ orders: "unavailable" }, { status: 503, headers: response.headers });
    };
    const { key } = await folder.keysJson("create", "--plan", "free", "--name", "Other");
    const args = ["--url", url, "--read-only"];
    const outcome = await runVerify(args, { send, input: key });
    expect(outcome.status).toBe(1);
    expect(outcome.stdout).toMatch(
      /^✘ GET \/healthz .*: the answer is 503 \{"orders":"unavailable"\} \(request verify-[\w-]{36}\)$/m,
    );
    expect(outcome.stdout).toContain("1 broken");
  });

  it.each([
    ["SIGINT", "while it waits"],
    ["SIGTERM", "during a request"],
    ["SIGHUP", "while it waits"],
    ["SIGHUP", "during a request"],
  ] as const)(
    "removes its key and its order after %s, even after two: %s",
    async (signal, moment) => {
      const others = process.listeners(signal);
      const interrupt = () => {
        // A real SIGINT would also reach Miniflare, which would end this process.
        const own = process.listeners(signal).filter((listener) => !others.includes(listener));
        expect(own).not.toEqual([]);
        for (const listener of [...own, ...own]) listener(signal);
      };
      const wait: Clock["wait"] = async (_, aborted) => {
        interrupt();
        aborted.throwIfAborted();
      };
      const send: Send = (address, init) => {
        if (init.method === "DELETE") interrupt();
        return sendToService(address, init);
      };
      const surroundings = moment === "while it waits" ? { clock: { ...clock, wait } } : { send };
      const { status, stdout, stderr } = await verifyLocal(["--write"], surroundings);
      expect(status).toBe(1);
      expect(stderr).toContain(`error: ended by ${signal} before everything was verified\n`);
      expect(stdout).not.toContain("✘");
      expect(await keyStates()).toEqual([]);
      expect((await exportOrders()).trimEnd().split("\n")).toHaveLength(3);
      expect(process.listeners(signal)).toEqual(others);
    },
  );

  it("finds the port of the service in its store, and makes no key if nothing answers", async () => {
    const { port } = new URL(url);
    const holder = (served: string) =>
      writeFileSync(join(folder.path, "service.json"), `{"pid":${process.pid},"port":${served}}`);
    const args = ["--persist-to", folder.path, "--read-only"];
    holder(port);
    const { status, stdout } = await runVerify(args);
    expect({ status, stdout }).toEqual({
      status: 0,
      stdout: expect.stringContaining(`Verifying http://127.0.0.1:${port}, `),
    });
    const before = await keyStates();
    holder("1");
    expect(await runVerify(args, { send: fetch })).toEqual(
      failure(". Start the service, or name its address with --url\n"),
    );
    expect(await keyStates()).toEqual(before);
  });

  it.each([
    ["pro"],
    // With equal limits, both windows have the same number of requests left.
    ["enterprise", "--per-minute", "100", "--per-day", "100"],
  ])(
    "with a key from standard input neither revokes the key nor places orders: %s",
    async (...plan) => {
      const { key } = await folder.keysJson("create", "--name", "Customer", "--plan", ...plan);
      const args = ["--url", url];
      const { status, stdout } = await runVerify(args, { input: `${key}\n` });
      expect(status).toBe(0);
      expect(stdout).toMatch(/^– Of 200 simultaneous requests.*: needs a new Free key$/m);
      expect(stdout).toContain("– A revoked key stops working within 30 seconds");
      expect(stdout).not.toContain(key);
    },
  );
});

describe("npm run verify --env staging", () => {
  const ADDRESS = "https://store-orders-staging.example.workers.dev";
  const bindings = { bindings: [], migrationTag: "v1", versions: new FakeVersions() };
  /** Sends requests for staging to the local service, which does not know the keys of staging. */
  const send: Send = (address, init) => {
    if (!address.startsWith(`${ADDRESS}/`)) throw new Error(`not staging: ${address}`);
    return sendToService(address.replace(ADDRESS, url), init);
  };
  const keysOfStaging = () => {
    const { sqlite } = cloudflare.d1.find("store-orders-staging-keys");
    return sqlite.prepare("SELECT * FROM api_keys ORDER BY created_at").all();
  };

  it("stops at the first 401 if the service does not know the keys of the store", async () => {
    cloudflare.workers.scripts.set("store-orders-staging", bindings);
    const statuses: number[] = [];
    const counting: Send = async (address, init) => {
      const response = await send(address, init);
      statuses.push(response.status);
      return response;
    };
    const { status, stdout, stderr } = await runVerify(["--env", "staging"], { send: counting });
    expect(status).toBe(1);
    expect(stdout).toContain(`Verifying ${ADDRESS}, for up to two minutes ...`);
    expect(stdout).toContain("✔ GET /healthz reports that every part responds");
    expect(stdout).not.toContain("✘");
    expect(stderr).toContain(`the service at ${ADDRESS} does not know the key: `);
    expect(statuses).toEqual([200, 200, 401]);
    expect(keysOfStaging()).toEqual([]);
  });

  it.each(["api_keys", "orders"])(
    "leaves nothing behind if the answer to an insertion into %s is lost",
    async (table) => {
      const { sqlite } = cloudflare.d1.find("store-orders-staging-orders");
      cloudflare.interfere = ({ body }) => {
        if (!body.includes(`insert into \\"${table}\\"`)) return undefined;
        return () => {
          throw new LostConnection();
        };
      };
      const args = ["--env", "staging", "--url", ADDRESS, "--write"];
      const { status } = await runVerify(args, { send });
      cloudflare.interfere = () => {};
      expect(status).toBe(1);
      expect(sqlite.prepare("SELECT id FROM orders").all()).toEqual([]);
      expect(sqlite.prepare("SELECT id FROM cancelled_orders").all()).toEqual([]);
      expect(keysOfStaging()).toEqual([]);
    },
  );
});

it("exits with status 1 and names what remains if it cannot revoke its key or remove its order", async () => {
  const fail = () => {
    throw new Error("broken");
  };
  const revoke = vi.spyOn(administration, "revokeApiKey").mockImplementationOnce(fail);
  await expect(verifyService({})).rejects.toThrow("broken");
  expect(await keyStates()).toEqual([]); // The clean-up removes the key.
  revoke.mockRestore();
  const remove = vi.spyOn(administration, "deleteVerificationKeys").mockImplementation(fail);
  const { status, stderr } = await verifyLocal(["--read-only"]);
  expect(status).toBe(1);
  const key =
    "the key key_\\w{16} of this verification is not removed; another one removes it an hour later: broken\n";
  expect(stderr).toMatch(new RegExp(`^error: ${key}$`, "m"));
  const database = await openLocalDatabase(folder.path, "orders");
  await database.orm.run(
    sql`CREATE TRIGGER keep BEFORE DELETE ON cancelled_orders BEGIN SELECT RAISE(ABORT, 'kept'); END`,
  );
  // All promises are kept, but the key cannot be removed and the order cannot be removed.
  await expect(verifyService({ isWriting: true })).rejects.toThrow(
    new RegExp(
      `^${key}the order -\\d+ of this verification is not removed; another one removes it `,
    ),
  );
  remove.mockRestore();
  await database.orm.run(sql`DROP TRIGGER keep`);
  await database.close();
});

it("is not red if many verifications from one address use up its bad credentials", async () => {
  const headers = { "CF-Connecting-IP": "2001:db8:1::1" };
  const verified = await Promise.all(Array.from({ length: 7 }, () => verifyService({ headers })));
  const promises = verified.flatMap((verification) => verification.promises);
  expect(promises.filter(({ result }) => result === "broken")).toEqual([]);
  const reasons = new Set(promises.map(({ reason }) => reason));
  expect(reasons).toContain("this address has sent too many bad credentials");
});

it("a repeated verification sends bad credentials once", async () => {
  const triedCredentials = new Set<string>();
  const refusals = async () => {
    let count = 0;
    const send: Send = async (address, init) => {
      const response = await sendToService(address, init);
      if (response.status === 401) count += 1;
      return response;
    };
    const { isKept, promises } = await verifyService({ send, triedCredentials });
    expect(isKept).toBe(true);
    return [count, promises.filter(({ reason }) => reason === "was tried before").length];
  };
  // The repetition only uses the revoked key.
  expect([await refusals(), await refusals()]).toEqual([
    [12, 0],
    [1, 11],
  ]);
});

it("deletes its key with its usage, and those that killed verifications left", async () => {
  const killed = administration.createVerificationKey(new Date(Date.now() - 3_600_000));
  const other = administration.createVerificationKey(new Date());
  const database = await openLocalDatabase(folder.path, "keys");
  await addKeys(database, [killed.record, other.record]);
  await database.orm.run(
    sql`INSERT INTO key_usage VALUES (${killed.record.id}, '2026-11-20', 1, 0, 0, 0, 1, 1, 60, 1000, 0)`,
  );
  await verifyService({});
  const ids = (await database.orm.select({ id: apiKeys.id }).from(apiKeys)).map(({ id }) => id);
  expect(ids).toContain(other.record.id);
  expect(ids).not.toContain(killed.record.id);
  expect(await database.orm.$count(keyUsage, eq(keyUsage.keyId, killed.record.id))).toBe(0);
  await database.orm.delete(apiKeys).where(eq(apiKeys.id, other.record.id));
  await database.close();
});

it("keeps the operator's own ended keys that are named like its own, with their usage and bans", async () => {
  const ended = new Date(Date.now() - 3_600_000);
  const record = () => administration.createVerificationKey(ended).record;
  const keys = [
    { ...record(), expiresAt: new Date(ended.getTime() + 660_000) },
    { ...record(), expiresAt: null, revokedAt: ended },
  ];
  const ids = keys.map(({ id }) => id);
  const database = await openLocalDatabase(folder.path, "keys");
  await database.orm.insert(apiKeys).values(keys);
  for (const id of ids) {
    await database.orm.run(
      sql`INSERT INTO key_usage VALUES (${id}, '2026-11-20', 1, 0, 0, 0, 1, 1, 60, 1000, 0)`,
    );
    await database.orm.run(sql`INSERT INTO key_bans VALUES (${id}, 0, 1, 1, NULL)`);
  }
  await verifyService({});
  const ofKeys = [
    [apiKeys, inArray(apiKeys.id, ids)],
    [keyUsage, inArray(keyUsage.keyId, ids)],
    [keyBans, inArray(keyBans.keyId, ids)],
  ] as const;
  for (const [table, where] of ofKeys) {
    expect(await database.orm.$count(table, where)).toBe(2);
    await database.orm.delete(table).where(where);
  }
  await database.close();
});

it("removes the order that a killed verification left an hour ago, and no other", async () => {
  const fields = '"petId":9223372036854775807,"quantity":-9223372036854775808,"complete":false';
  const order = (id: string, ageMs: number) => {
    const shipDate = new Date(clock.now() - ageMs).toISOString();
    return `{"id":-92233720368547758${id},"shipDate":"${shipDate}",${fields}}\n`;
  };
  const before = await exportOrders();
  await folder.ordersJson(["import", "-"], order("06", 3_660_000) + order("05", 3_500_000));
  await verifyService({ isWriting: true });
  const after = await exportOrders();
  expect(after).toContain('{"id":-9223372036854775805,');
  expect(after).toHaveLength(before.length + after.indexOf("\n") + 1);
  await verifyService({ isWriting: true, clock: { ...clock, now: () => clock.now() + 200_000 } });
  expect(await exportOrders()).toBe(before);
});

it("with a full disk at any use of the database fails, and a later one removes what is left", async () => {
  const before = await exportOrders();
  for (const full of [1, 2, 3, 4, 5]) {
    let uses = 0;
    const withFullDisk: typeof useLocal = async (...work) => {
      if ((uses += 1) === full) throw new Error("database or disk is full");
      return useLocal(...work);
    };
    const failing = verifyService({ isWriting: true, useDatabase: withFullDisk });
    await expect(failing).rejects.toThrow("database or disk is full");
  }
  await verifyService({ isWriting: true, clock: { ...clock, now: () => clock.now() + 3_700_000 } });
  expect([await keyStates(), await exportOrders()]).toEqual([[], before]);
});

it("as typed, fails once if its output is full, and leaves nothing", async () => {
  const line = `"$NODE" src/operator/main.ts verify --read-only --persist-to "$STORE" --url ${url} > /dev/full`;
  const env = { NODE: process.execPath, STORE: folder.path };
  const { status, stderr } = await runCommand("bash", ["-c", line], { env });
  expect([status, stderr.match(/error: .*/g)]).toEqual([
    1,
    [expect.stringContaining("the output does not fit on the disk")],
  ]);
  expect(await keyStates()).toEqual([]);
});

it("removes no order of the store, even if its own order was to get the same id", async () => {
  await folder.ordersJson(["import", "-"], '{"id":-9223372036854775801}');
  const before = await exportOrders();
  const drawn = crypto.getRandomValues.bind(crypto);
  const draw = vi.spyOn(crypto, "getRandomValues").mockImplementation((array) => {
    return array instanceof Uint32Array ? array.fill(7) : drawn(array);
  });
  await expect(verifyService({ isWriting: true })).rejects.toThrow("UNIQUE");
  draw.mockRestore();
  expect(await exportOrders()).toBe(before);
});

describe("npm run verify", () => {
  it.each([
    [["--url", "https://shop.example", "--write"], 2, "--write needs the store"],
    [["--url", "https://shop.example/v1"], 2, "an address without a path"],
    [["--url", "shop.example"], 2, "an address without a path"],
    [["--write", "--read-only"], 2, "cannot be used with"],
    [["--env", "staging", "--persist-to", "x"], 2, "cannot be used with"],
    [["production"], 2, "too many arguments"],
    [["--env", "production", "--write"], 1, "nothing was changed, because there is no terminal"],
  ])("refuses %j with status %i", async (args, status, message) => {
    expect(await runVerify(args)).toEqual(failure(message, status));
  });

  it("refuses standard input that is not an API key", async () => {
    const outcome = await runVerify(["--url", url], { input: "sord_abc" });
    expect(outcome.status).toBe(1);
    expect(outcome.stderr).toContain("standard input holds no API key");
  });
});

it.for([
  ...Object.entries(LIMIT_SABOTAGES).map((entry) => [...entry, { isReadOnly: false }] as const),
  ...Object.entries(ORDER_SABOTAGES).map((entry) => [...entry, { isWriting: true }] as const),
  ...Object.entries(SABOTAGES).map((entry) => [...entry, {}] as const),
])("a service that %s breaks a promise", async ([, [breaks, sabotage], options]) => {
  // Ends the verification after the first broken promise, which is enough for this test.
  const end = new AbortController();
  const broken: PromiseResult[] = [];
  const report = (found: PromiseResult) => {
    if (found.result !== "broken") return;
    broken.push(found);
    end.abort(new Error("enough"));
  };
  const send = sabotage(sendToService);
  const verification = verifyService({ ...options, send, report, signal: end.signal });
  await verification.catch((error: Error) => {
    if (error.message !== "enough") throw error;
  });
  expect(broken).toMatchObject([
    {
      promise: expect.stringMatching(breaks),
      requestId: expect.stringMatching(/./),
      reason: expect.stringMatching(/./),
    },
  ]);
});

it("a request that was sent within 30 seconds of the revocation may be answered later", async () => {
  const wait: Clock["wait"] = (ms, signal) => clock.wait(Math.max(0, ms), signal);
  const send: Send = async (address, init) => {
    const response = await sendToService(address, init);
    if (response.status === 304) await clock.wait(31_000, init.signal!);
    return response;
  };
  const { promises } = await verifyService({ send, clock: { ...clock, wait } });
  const { result } = promises.find(({ promise }) => promise.startsWith("A revoked key"))!;
  expect(result).toBe("kept");
});

it("a list without end is read as far as necessary, and then ended", async () => {
  let under = 0;
  const endless = () => {
    let id = 0;
    under += 1;
    return new ReadableStream({
      pull: (controller) => {
        const orders = Array.from({ length: 500 }, () => `{"id":${(id += 1)},"complete":true}`);
        controller.enqueue(new TextEncoder().encode(`${id === 500 ? "[" : ","}${orders.join()}`));
      },
      cancel: () => {
        under -= 1;
      },
    });
  };
  const send: Send = async (address, init) => {
    const response = await sendToService(address, init);
    const isList = response.status === 200 && address.endsWith("/orders") && init.method === "GET";
    return isList ? new Response(endless(), response) : response;
  };
  const orders = { pending: { id: 3_000n, json: '{"id":3000,' }, shippedId: 4_000n };
  const { key } = await folder.keysJson("create", "--plan", "free", "--name", "Endless");
  const { promises } = await verify({ url, key, orders, isReadOnly: true, clock, send });
  const broken = promises.filter(({ result }) => result === "broken");
  // These promises break, because the endless list has orders that the database does not have.
  expect(broken.map(({ promise }) => promise)).toEqual([
    "A cancellation whose precondition is false returns 412",
    "Of simultaneous requests that cancel one order, one returns 204",
    "A list that begins after a cancellation lacks the order",
    "Cancelling a shipped order returns 409, and the order stays",
  ]);
  expect(under).toBe(0);
});

it("an answer of another version ends the verification, whether it comes first, amid others or last", async () => {
  const version = "3f1c6f5e-6f0d-4f1e-9a86-0c8c5a4a1b2d";
  /** Verifies a service that confirms the version in all responses but the one named `except`. */
  const tryWithout = async (except?: string) => {
    const seen = new Set<string>();
    const send: Send = async (address, init) => {
      const headers = new Headers(init.headers);
      expect(headers.get("X-Version")).toBe(version);
      // The local service is not this version, so the test confirms the version itself.
      headers.delete("X-Version");
      const response = await sendToService(address, { ...init, headers });
      const path = new URL(address).pathname.replace(/-\w+-.*/, "");
      const name = `${init.method} ${path} ${response.status}`;
      seen.add(name);
      const confirmed = new Response(response.body, response);
      if (name !== except) confirmed.headers.set("X-Version", version);
      return confirmed;
    };
    const { isKept } = await verifyService({ isReadOnly: false, version, send });
    expect(isKept).toBe(true);
    return [...seen];
  };
  const names = await tryWithout();
  for (const name of ["GET /healthz 200", "GET /v1/store/orders 429", names.at(-1)]) {
    await expect(tryWithout(name), name).rejects.toThrow(`not answered by the version ${version}`);
  }
});

it("a service that cannot be reached gets only one request, and is reported once", async () => {
  let requests = 0;
  const reported: PromiseResult[] = [];
  const send = async () => {
    requests += 1;
    throw new TypeError("fetch failed", { cause: new Error("connect ECONNREFUSED") });
  };
  const report = (found: PromiseResult) => reported.push(found);
  const { isKept, promises } = await verifyService({ isReadOnly: false, send, report });
  expect({ isKept, requests }).toEqual({ isKept: false, requests: 1 });
  expect(reported).toEqual(promises);
  const [broken, ...others] = promises;
  expect(broken?.reason).toContain("connect ECONNREFUSED");
  expect(new Set(others.map(({ result }) => result))).toEqual(new Set(["untried"]));
});
