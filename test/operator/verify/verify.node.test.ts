import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Readable } from "node:stream";
import { beforeAll, beforeEach, expect, it, vi } from "vitest";
import { openApiDocument } from "../../../src/openapi/document.ts";
import * as databases from "../../../src/store/database.ts";
import * as retrying from "../../../src/operator/retry.ts";
import { databaseFile, makeOwnFolder } from "../../../src/operator/database/local-store.ts";
import { useDatabase } from "../../../src/operator/database/open.ts";
import { addKeys } from "../../../src/store/keys/change-key.ts";
import { createVerificationKey } from "../../../src/store/keys/verification-key.ts";
import { OtherVersionError } from "../../../src/operator/verify/answer.ts";
import { verifyProgram } from "../../../src/operator/verify/program.ts";
import { PROMISES } from "../../../src/operator/verify/promises.ts";
import { type PromiseResult, verify, verifyStore } from "../../../src/operator/verify/verify.ts";
import { INT64_MAX, INT64_MIN } from "../../../src/rules/int64.ts";
import type { Server } from "../../support/server.ts";
import { advanceClock, CLOCKED_SERVICE, ServedStore } from "../../process/worker-server.ts";
import { useFakeCloudflare } from "../deploy/fake-cloudflare.ts";
import { FAULTS, atEveryCall } from "../deploy/faults.ts";
import { failure, type Outcome, runInProcess } from "../commands.ts";
import { add, answer, become, INVALID, only, OTHER_METHOD, SABOTAGES } from "./sabotages.ts";
import type { Sabotage, Send } from "./sabotages.ts";
import { DATABASE_NAMES, type DatabaseName } from "../../../src/schema/databases.ts";

const ORDERS = `{"id":1,"petId":2,"quantity":3,"shipDate":"2026-11-20T08:30:00.000Z","complete":true}
{"id":2}
{"id":9223372036854775807,"status":"shipped"}
`;
const HOUR_MS = 3_600_000;

const cloudflare = useFakeCloudflare("staging");
const folder = new ServedStore();
const open = (name: DatabaseName) =>
  new DatabaseSync(databaseFile(folder.path, name), { timeout: 5_000 });
/** When the recorded verification began, which is the time of the databases ever since. */
const startMs = Date.now();
const systemNow = Date.now;
const realFetch = globalThis.fetch;
let service: Server;
let aheadMs = 0;
/** The responses to the requests for each promise. Repeating them is ten times as fast. */
const recorded: { readonly response: Response; readonly atMs: number }[][] = [];

/** The clock of verifications, which moves the service's clock instead of waiting, and their fetch. */
const real = {
  now: () => systemNow() + aheadMs,
  wait: async (milliseconds: number, _signal: AbortSignal) => {
    aheadMs += milliseconds;
    await advanceClock(service, milliseconds / 1_000);
  },
  // Returns static files itself, because the service has none.
  send: async (address: string, init: RequestInit) => {
    const { pathname } = new URL(address);
    const html = { headers: { "Content-Type": "text/html; charset=utf-8" } };
    if (pathname === "/") return new Response("<!doctype html>", html);
    if (pathname === "/openapi.json") return new Response(openApiDocument());
    return realFetch(address, init);
  },
};
let world = real;
beforeEach(() => void (world = real));

/** Verifies everything that can be verified. */
const verifyAll = (options: Partial<Parameters<typeof verifyStore>[0]>) =>
  verifyStore({
    url: service.url,
    signal: new AbortController().signal,
    store: { persistTo: folder.path },
    isWriting: true,
    ...options,
  });

const untriedIn = (promises: readonly PromiseResult[]) =>
  promises.filter(({ result }) => result === "untried").map(({ reason }) => reason);
const brokenIn = (promises: readonly PromiseResult[]) =>
  promises.filter(({ result }) => result === "broken").map(({ promise }) => promise);

beforeAll(async () => {
  await folder.ordersJson(["import", "-"], ORDERS);
  await folder.keysJson("list");
  service = await folder.serve(CLOCKED_SERVICE);
  // Staging has the databases of the local service.
  for (const name of DATABASE_NAMES) {
    cloudflare.d1.find(`store-orders-staging-${name}`).sqlite = open(name);
  }
  cloudflare.deployService("staging");
  vi.spyOn(databases, "databaseTime").mockImplementation(async () => new Date(startMs));
  vi.spyOn(Date, "now").mockImplementation(() => world.now());
  vi.spyOn(retrying, "pause").mockImplementation((ms, signal) => world.wait(ms, signal));
  // Each verification places the order of the recorded one.
  vi.spyOn(Math, "random").mockReturnValue(7 / 2 ** 32);
  const fetchFromAccount = globalThis.fetch;
  globalThis.fetch = async (input, init = {}) => {
    const { href, origin, pathname } = new URL(input instanceof Request ? input.url : input);
    const isOther = origin === cloudflare.origin || pathname === "/clock";
    return isOther ? fetchFromAccount(input, init) : world.send(href, init);
  };
  // Records a verification of the real service.
  let promise = 0;
  const recording: Send = async (address, init) => {
    const received = await real.send(address, init);
    const response = new Response((await received.text()) || null, received);
    (recorded[promise] ??= []).push({ response, atMs: real.now() });
    return response.clone();
  };
  world = { ...real, send: recording };
  expect(brokenIn(await verifyAll({ report: () => void (promise += 1) }))).toEqual([]);
  // Without the requests before the revoked key was refused, and at no time of its own.
  recorded.push([{ ...recorded.pop()!.at(-1)!, atMs: 0 }]);
  expect(takeLeftovers()).toEqual([]);
  expect(rows("orders", "SELECT count(*) FROM orders")).toEqual([3]);
});

/** Repeats the recorded responses to the requests for each promise, at the recorded times. */
function replay(sabotage: Sabotage = (own) => own, responses = recorded) {
  let [promise, index, nowMs] = [0, 0, startMs];
  const wait = async (milliseconds: number, signal: AbortSignal) => {
    signal.throwIfAborted();
    nowMs += milliseconds;
  };
  const repeat: Send = async (_, { headers }) => {
    const { response, atMs } = responses[promise]?.[index++] ?? responses[promise]!.at(-1)!;
    nowMs = Math.max(nowMs, atMs);
    const repeated = response.clone();
    const id = new Headers(headers).get("X-Request-Id");
    if (id !== null) repeated.headers.set("X-Request-Id", id);
    return repeated;
  };
  world = { now: () => nowMs, wait, send: sabotage(repeat) };
  return { report: () => void ([promise, index] = [promise + 1, 0]) };
}

const run = (args: readonly string[], input = "") => runInProcess(verifyProgram(), args, input);
const runLocally = (...more: readonly string[]) =>
  run(["--persist-to", folder.path, "--url", `${service.url}/`, ...more]);

/** Runs the command for staging. It first asks whether the service is healthy, and for a quota. */
function runForStaging(sabotage?: Sabotage): Promise<Outcome> {
  replay(sabotage, [[recorded[0]![0]!, recorded[1]![0]!, ...recorded.flat()]]);
  return run(["--env", "staging", "--write"]);
}

/** Runs a statement on a database of the store, and returns the values of all rows. */
function rows(name: DatabaseName, query: string) {
  using sqlite = open(name);
  return sqlite.prepare(query).all().flatMap(Object.values) as string[];
}

/** Removes the keys and orders, cancelled or not, that verifications have left. Returns their ids. */
function takeLeftovers(): string[] {
  const take = (table: string) =>
    rows("orders", `DELETE FROM ${table} WHERE id < 0 RETURNING CAST(id AS TEXT)`);
  const keys = rows("keys", "DELETE FROM api_keys WHERE name = 'Verification' RETURNING id");
  return [...keys, ...take("orders"), ...take("cancelled_orders")];
}

it("prints a line for each promise, and exits with status 1 if one is broken", async () => {
  const kept = Object.keys(PROMISES).map((promise) => `✔ ${promise}\n`);
  const begins = `Verifying https://store-orders-staging.example.workers.dev, for up to two minutes ...\n`;
  const stdout = `${begins}${kept.join("")}${kept.length} promises kept, 0 broken, 0 not tried.\n`;
  expect(await runForStaging()).toEqual({ status: 0, stdout, stderr: "" });
  const line = /^✘ Any other .*: Allow is DELETE, not GET, HEAD \(request verify-[\w-]{36}\)$/m;
  const broken = { status: 1, stdout: expect.stringMatching(line) };
  expect(await runForStaging(answer(...OTHER_METHOD))).toMatchObject(broken);
});

it("a signal or a lost connection at any step leaves nothing, or says what is left", async () => {
  // Injects the faults into requests too.
  const disturb: Sabotage = (own) => async (address, init) => {
    const path = `${init.method}`;
    cloudflare.interfere({ method: "GET", path, query: {}, body: "", change() {} });
    init.signal?.throwIfAborted();
    return own(address, init);
  };
  const { "an answer that lies": _, ...faults } = FAULTS;
  const check = async ({ status, stderr }: Outcome, label: string) => {
    const left = takeLeftovers();
    if (!label.includes("for good")) expect(left, label).toEqual([]);
    for (const id of left) {
      expect(stderr, label).toContain(`${id} of this verification is not removed; another one`);
    }
    // It may come too late for the verification, but not before a request.
    if (label.startsWith("a signal") && (status !== 0 || /, GET [A-Z]+:/.test(label))) {
      expect(stderr, label).toMatch(/^error: ended by SIG\w+ before everything was verified\n$/);
    }
  };
  await atEveryCall(cloudflare, () => runForStaging(disturb), check, faults);
});

it.for(SABOTAGES)("a service that breaks a promise breaks only it: %s", async (sabotage) => {
  const [title, target, change, why = ""] = sabotage;
  const isReadOnly = !/^(?:Of 200|A request over)/.test(title);
  const promises = await verifyAll({ ...replay(answer(target, change)), isReadOnly });
  const reason = new RegExp(`^(?!.*sord_\\w).*${RegExp.escape(why)}.* \\(request .+\\)$`);
  const broken = { promise: expect.stringMatching(`^${title}`), result: "broken" };
  expect(promises.filter(({ result }) => result === "broken")).toEqual([
    { ...broken, reason: expect.stringMatching(reason) },
  ]);
});

it("each promise has a sabotage that breaks it", () => {
  const isSabotaged = (promise: string) => SABOTAGES.some(([title]) => promise.startsWith(title));
  expect(Object.keys(PROMISES).filter((promise) => !isSabotaged(promise))).toEqual([]);
});

it("reads only the beginning of a long list", async () => {
  async function* parts() {
    yield Buffer.from('[{"id":0');
    // Each part ends within an order.
    for (let id = 1; id < 100_000; id += 1) yield Buffer.from(`},{"id":${id}`);
    throw new Error("reads on");
  }
  const lengthen: Sabotage = (own) => async (address, init) => {
    const response = await own(address, init);
    const isList = init.method === "GET" && response.status === 200 && address.endsWith("/orders");
    return isList ? new Response(Readable.toWeb(Readable.from(parts())), response) : response;
  };
  const how = { ...replay(lengthen), isReadOnly: true, isWriting: false };
  expect(brokenIn(await verifyAll(how))).toEqual([]);
});

const REFUSED = become(429, "rate_limit_exceeded", "retry-after: 30");
const USED_UP = ["the key's limit is used up", "needs a new Free key", "no request was refused"];
const TOO_MANY = Array(12).fill("this address has sent too many bad credentials");
it.each([
  ["uses up the limit of the new key", USED_UP, /sord_/, only(REFUSED)],
  ["refuses more bad credentials of this address", TOO_MANY, /=> 401/, REFUSED],
  // The requests are two seconds apart.
  ["knows a revoked key in 15 requests", [], /if-none-match.*=> 401/s, only(become(304), 0, 15)],
])("no promise is broken by a service that %s", async (_, untried, target, change) => {
  const promises = await verifyAll(replay(answer(target, change)));
  expect([brokenIn(promises), untriedIn(promises)]).toEqual([[], untried]);
});

it("a verification of a version ends at an answer of another, and the next repeats only bad credentials that were refused for their number", async () => {
  const trial = { version: "new", triedCredentials: new Set<string>() };
  // Files name no version.
  const named = answer(/x-request-id.*\nx-version: new/, [/\n/, "\nx-version: new\n"]);
  const refused = answer(/=> 401/, only(REFUSED));
  const another = answer(/bEARER/, [/x-version: new/, "x-version: old"]);
  const late = replay((send) => another(refused(named(send))));
  const cause = expect.any(OtherVersionError);
  await expect(verifyAll({ ...trial, ...late })).rejects.toMatchObject({ cause });
  const promises = await verifyAll({ ...trial, ...replay(named) });
  const untried = Array(10).fill("was tried before");
  expect([brokenIn(promises), untriedIn(promises)]).toEqual([[], untried]);
});

it("stops at once if this address may send no more bad credentials, or the service does not know the key", async () => {
  const reset = Math.ceil(real.now() / 1_000) + 7_200;
  const refused = become(401, "unauthorized", `www-authenticate: ${INVALID}`);
  const runWith = (remaining: number) => {
    const [limits, rest] = [/x-ratelimit-limit[^]*reset: \d+/, /"day";r=\d+;t=\d+/];
    const names = `x-ratelimit-limit: 1000\nx-ratelimit-remaining: ${remaining}\nx-ratelimit-reset: ${reset}`;
    const spend = (text: string) =>
      text.replace(limits, names).replace(rest, `"day";r=${remaining};t=7200`);
    world = { ...real, send: answer(/=> 401/, spend)(answer(/sord_/, refused)(real.send)) };
    return runLocally();
  };
  const end = new Date(reset * 1_000).toISOString().slice(0, 14).replace("T", " ");
  expect(await runWith(19)).toEqual(failure(`run the same command after ${end}`));
  const { status, stdout, stderr } = await runWith(20);
  expect([status, stdout.split("\n").length]).toEqual([1, 3]);
  expect(stderr).toContain(`the service at ${service.url} does not know the key: `);
  expect(takeLeftovers()).toEqual([]);
});

it("without --write places no order, with --read-only fills no minute, and --json tells all", async () => {
  const verified = async (...more: readonly string[]) => {
    const { status, stdout } = await runLocally("--json", ...more);
    const { promises, ...result } = JSON.parse(stdout);
    expect(result).toEqual({ url: service.url, isKept: status === 0 });
    return [status, brokenIn(promises), untriedIn(promises)];
  };
  const unwritten = Array(5).fill("places an order");
  const untried = ["uses up the key's minute", "no request was refused", ...unwritten];
  expect(await verified("--read-only")).toEqual([0, [], untried]);
  world = { ...real, send: answer(...OTHER_METHOD)(real.send) };
  const broken = ["Any other method returns 405 with Allow"];
  const advised = unwritten.map((reason) => `${reason}: add --write`);
  expect(await verified()).toEqual([1, broken, advised]);
  expect(takeLeftovers()).toEqual([]);
});

it("with the operator's own key, which others may use, sees that a request is not counted", async () => {
  const uncounted = answer(/\/verify.*=> 404/s, add(1, /(?<="day";r=)\d+/));
  const watched = { url: service.url, signal: new AbortController().signal, ...replay(uncounted) };
  const promises = await verify(watched, { key: "sord_own" });
  expect(brokenIn(promises)).toContain("Each request counts once, also a 304, 404, 405 or 412");
});

it("with a key from stdin neither revokes the key nor places orders", async () => {
  // With equal limits, both windows have the same number of requests left.
  const create = "create --name Customer --plan enterprise --per-minute 100 --per-day 100";
  const { key } = await folder.keysJson(...create.split(" "));
  const { status, stdout } = await run(["--url", service.url], `${key}\n`);
  expect(status).toBe(0);
  expect(stdout).toMatch(/^– Of 200 simultaneous requests.*: needs a new Free key$/m);
  expect(stdout).toContain("– A revoked key stops working within 30 seconds");
  expect(stdout).not.toContain(key);
});

it("finds the port of the service in its store, and makes no key if none answers there", async () => {
  const changes = rows("keys", "SELECT count(*) FROM key_changes");
  const holder = `{"pid":${process.pid},"port":1}`;
  writeFileSync(join(makeOwnFolder(folder.path), "service.json"), holder);
  const send = () => Promise.reject(new TypeError("failed", { cause: Error("refused") }));
  world = { ...real, send };
  const unanswered = "GET http://127.0.0.1:1/healthz has no complete answer: refused";
  const told = `no healthy service at http://127.0.0.1:1: ${unanswered} (request verify-`;
  expect(await run(["--persist-to", folder.path])).toEqual(failure(told));
  expect(rows("keys", "SELECT count(*) FROM key_changes")).toEqual(changes);
});

it.each([
  [["--url", "https://shop.example", "--write"], 2, "--write needs the store"],
  [["--write", "--read-only"], 2, "'--write' cannot be used with option '--read-only'"],
  [["--env", "production", "--write"], 1, "nothing was changed, because there is no terminal"],
])("refuses %j with status %i", async (args, status, message) => {
  expect(await run(args)).toEqual(failure(message, status));
});

it("removes what killed verifications left an hour ago, and nothing else", async () => {
  const key = (ageMs: number, more = {}) =>
    Object.assign(createVerificationKey(new Date(startMs - ageMs)).record, more);
  const expired = new Date(startMs - HOUR_MS);
  const others = [
    key(0),
    // The operator's own ended keys, with the name of verifications.
    key(HOUR_MS, { expiresAt: expired }),
    key(HOUR_MS, { expiresAt: null, revokedAt: expired }),
  ];
  await useDatabase({ persistTo: folder.path }, "keys", (keys) =>
    addKeys(keys, [key(HOUR_MS), ...others], "test"),
  );
  const kept = others.map(({ id }) => id);
  const ofKeys = "FROM api_keys WHERE name = 'Verification'";
  rows("keys", `INSERT INTO key_usage SELECT id, 'a day', 1, 1, 1, 1, 1, 1, 1, 1, 1 ${ofKeys}`);
  rows("keys", `INSERT INTO key_bans SELECT id, 1, 1, 1, 1 ${ofKeys}`);
  const columns = "id, pet_id, quantity, ship_date, complete";
  for (const [position, minutes, petId, quantity, isKept] of [
    [5n, 59, INT64_MAX, INT64_MIN, true],
    [6n, 61, INT64_MAX, INT64_MIN, false],
    // Those of customers. The first has the id of the order of this verification, which then fails.
    [7n, 61, 7n, INT64_MIN, true],
    [8n, 61, INT64_MAX, 7n, true],
    [2n ** 32n + 1n, 61, INT64_MAX, INT64_MIN, true],
  ] as const) {
    const id = INT64_MIN + position;
    const shipDate = new Date(systemNow() - minutes * 60_000).toISOString();
    const values = `${id}, ${petId}, ${quantity}, '${shipDate}', 0`;
    rows("orders", `INSERT INTO orders (${columns}) VALUES (${values})`);
    rows("orders", `INSERT INTO cancelled_orders (${columns}, cancelled_at) VALUES (${values}, 0)`);
    if (isKept) kept.push(`${id}`, `${id}`);
  }
  await expect(verifyAll(replay())).rejects.toThrow(/UNIQUE/);
  const used = `SELECT key_id FROM key_usage WHERE day = 'a day'
    UNION SELECT key_id FROM key_bans WHERE began_at = 1 ORDER BY key_id`;
  expect(rows("keys", used)).toEqual(others.map(({ id }) => id).toSorted());
  expect(takeLeftovers().toSorted()).toEqual(kept.toSorted());
});
