import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { type Surroundings, verifyProgram } from "../../../src/operator/verify/program.ts";
import * as wrangler from "../../../src/operator/wrangler.ts";
import { FakeVersions } from "../deploy/fake-versions.ts";
import { LostConnection, useFakeCloudflare } from "../deploy/fake-cloudflare.ts";
import { runFakeWrangler } from "../deploy/fake-wrangler.ts";
import { ApiError } from "../deploy/route.ts";
import type { Outcome } from "../deploy/run-command.ts";
import { failure, runInProcess } from "../in-process.ts";
import { LISTED_ORIGIN, type ServiceOnTrial, startServiceOnTrial } from "./service-on-trial.ts";

const cloudflare = useFakeCloudflare("staging");
let service: ServiceOnTrial;
let runs = 0;
beforeAll(async () => {
  service = await startServiceOnTrial();
  // The mock begins here, because the start above needs the real wrangler to migrate the store.
  vi.spyOn(wrangler, "runWrangler").mockImplementation(runFakeWrangler);
});
afterAll(() => service[Symbol.asyncDispose]());

/** Runs `verify` from a new client address: the service limits failed authentications of each. */
function runVerify(
  args: readonly string[],
  { input, ...surroundings }: Partial<Surroundings> & { readonly input?: string } = {},
): Promise<Outcome> {
  const { clock, send } = service;
  const address = ["--header", `CF-Connecting-IP: 2001:db8:0:${(runs += 1)}::1`];
  return runInProcess(
    verifyProgram({ clock, send, ...surroundings }),
    [...args, ...address],
    input,
  );
}

/** Runs `verify` on the local service with its store. */
function verifyLocal(args: readonly string[], surroundings?: Partial<Surroundings>) {
  const target = ["--persist-to", service.folder.path, "--url", service.url];
  return runVerify([...target, ...args], surroundings);
}

/** Returns the state of each key that verifications have created in the local store. */
async function keyStates(): Promise<string[]> {
  const keys: { state: string }[] = await service.folder.keysJson("list", "--name", "Verification");
  return keys.map(({ state }) => state);
}

describe("npm run verify on a local store", () => {
  it("prints a line for each promise, and leaves nothing but a revoked key", async () => {
    const before = (await service.folder.orders(["export"])).stdout;
    const { status, stdout, stderr } = await verifyLocal(["--write", "--origin", LISTED_ORIGIN]);
    expect({ status, stderr: stderr.split("\n")[0] }).toEqual({
      status: 0,
      stderr: expect.stringMatching(/^Waiting \d+ s for the end of the minute \.\.\.$/),
    });
    const lines = stdout.trimEnd().split("\n");
    expect(lines[0]).toBe(`Verifying ${service.url}, for up to two minutes ...`);
    expect(lines.at(-1)).toMatch(/^\d+ promises kept, 0 broken, 0 not tried, in \d+ s\.$/);
    expect(lines.slice(1, -1).filter((line) => !line.startsWith("✔ "))).toEqual([]);
    expect(lines.length).toBeGreaterThan(30);
    expect(await keyStates()).toEqual(["revoked"]);
    expect((await service.folder.orders(["export"])).stdout).toBe(before);
  });

  it("with --read-only uses up no limit, writes nothing, and lists untried promises", async () => {
    const before = (await service.folder.orders(["export"])).stdout;
    const { status, stdout } = await verifyLocal(["--read-only", "--json"]);
    expect(status).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ url: service.url, isKept: true });
    const { promises } = JSON.parse(stdout) as { promises: { result: string; reason?: string }[] };
    const untried = promises.filter(({ result }) => result === "untried");
    expect(new Set(untried.map(({ reason }) => reason))).toEqual(
      new Set([
        "uses up the key's minute",
        "places an order: add --write",
        "name a listed origin with --origin",
      ]),
    );
    expect((await service.folder.orders(["export"])).stdout).toBe(before);
    expect(await keyStates()).toEqual(["revoked", "revoked"]);
  });

  it("exits with status 1 and prints the request id if a promise is broken", async () => {
    const send: typeof service.send = async (url, init) => {
      const response = await service.send(url, init);
      if (!url.endsWith("/healthz")) return response;
      return Response.json({ orders: "unavailable" }, { status: 503, headers: response.headers });
    };
    const { key } = await service.folder.keysJson("create", "--plan", "free", "--name", "Other");
    const args = ["--url", service.url, "--read-only"];
    const outcome = await runVerify(args, { send, input: key });
    expect(outcome.status).toBe(1);
    expect(outcome.stdout).toMatch(
      /^✘ GET \/healthz .*: the answer is 503 \{"orders":"unavailable"\} \(request verify-[\w-]{36}\)$/m,
    );
    expect(outcome.stdout).toContain("1 broken");
  });

  it("revokes its key and removes its order after SIGINT, even after two", async () => {
    const others = process.listeners("SIGINT");
    const clock = {
      ...service.clock,
      wait: async (_: number, aborted: AbortSignal) => {
        // Calls only the command's own listeners. A real SIGINT would also reach Miniflare, which
        // runs in this process and would end the process.
        const own = process.listeners("SIGINT").filter((listener) => !others.includes(listener));
        for (const interrupt of [...own, ...own]) interrupt("SIGINT");
        aborted.throwIfAborted();
      },
    };
    const { status, stderr } = await verifyLocal(["--write"], { clock });
    expect(status).toBe(1);
    expect(stderr).toContain("error: ended by SIGINT before everything was verified\n");
    expect(await keyStates()).toEqual(["revoked", "revoked", "revoked"]);
    expect((await service.folder.orders(["export"])).stdout.trimEnd().split("\n")).toHaveLength(3);
    expect(process.listeners("SIGINT")).toEqual(others);
  });

  it("finds the port of the service in its store, and makes no key if nothing answers", async () => {
    const { port } = new URL(service.url);
    const holder = (served: string) =>
      writeFileSync(join(service.folder.path, "service.json"), `{"pid":1,"port":${served}}`);
    const args = ["--persist-to", service.folder.path, "--read-only"];
    const send: typeof service.send = (url, init) =>
      service.send(url.replace("localhost", "127.0.0.1"), init);
    holder(port);
    const { status, stdout } = await runVerify(args, { send });
    expect({ status, stdout }).toEqual({
      status: 0,
      stdout: expect.stringContaining(`Verifying http://localhost:${port}, `),
    });
    const before = await keyStates();
    holder("1");
    expect(await runVerify(args, { send: fetch })).toEqual(
      failure(". Start the service, or name its address with --url\n"),
    );
    expect(await keyStates()).toEqual(before);
  });

  it("with a key from standard input neither revokes the key nor places orders", async () => {
    const { key } = await service.folder.keysJson("create", "--plan", "pro", "--name", "Customer");
    const args = ["--url", service.url];
    const { status, stdout } = await runVerify(args, { input: `${key}\n` });
    expect(status).toBe(0);
    expect(stdout).toMatch(/^– Of 200 simultaneous requests.*: needs a new Free key$/m);
    expect(stdout).toContain("– A revoked key stops working within 30 seconds");
    expect(stdout).not.toContain(key);
  });
});

describe("npm run verify --env staging", () => {
  const ADDRESS = "https://store-orders-staging.example.workers.dev";
  const bindings = { bindings: [], migrationTag: "v1", versions: new FakeVersions() };
  /** Sends requests for staging to the local service, which does not know the keys of staging. */
  const send: typeof service.send = (url, init) => {
    if (!url.startsWith(`${ADDRESS}/`)) throw new Error(`not staging: ${url}`);
    return service.send(url.replace(ADDRESS, service.url), init);
  };
  const keysOfStaging = () => {
    const { sqlite } = cloudflare.d1.find("store-orders-staging-keys");
    return sqlite.prepare("SELECT * FROM api_keys ORDER BY created_at").all();
  };

  it("finds the URL of staging, creates a Free key for ten minutes, and revokes it", async () => {
    cloudflare.workers.scripts.set("store-orders-staging", bindings);
    const args = ["--env", "staging", "--read-only"];
    const { status, stdout } = await runVerify(args, { send });
    expect(status).toBe(1);
    expect(stdout).toContain(`Verifying ${ADDRESS}, for up to two minutes ...`);
    expect(stdout).toContain("✔ GET /healthz reports that every part responds");
    expect(stdout).toContain(
      "✘ The list is one JSON array, in ascending id: the answer is unauthorized",
    );
    const [key, ...others] = keysOfStaging() as Record<string, number>[];
    expect(others).toEqual([]);
    expect(key).toMatchObject({
      name: "Verification",
      plan: "free",
      revoked_at: expect.any(Number),
    });
    expect(Number(key?.["expires_at"]) - Number(key?.["created_at"])).toBe(600_000);
  });

  it.each(["api_keys", "orders"])(
    "leaves nothing behind if the answer to an insertion into %s is lost",
    async (table) => {
      const { sqlite } = cloudflare.d1.find("store-orders-staging-orders");
      cloudflare.interfere = ({ body }) => {
        if (!body.includes(`insert into \\"${table}`)) return undefined;
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
      expect(keysOfStaging().filter((key) => key["revoked_at"] === null)).toEqual([]);
    },
  );

  it("does not try a 409 if the store has no shipped order", async () => {
    const args = ["--env", "staging", "--url", ADDRESS, "--write"];
    const { stdout } = await runVerify(args, { send });
    expect(stdout).toMatch(/^– Cancelling a shipped order .*: none of the store's first orders/m);
  });

  it("exits with status 1 and names the key if it cannot revoke the key", async () => {
    cloudflare.interfere = ({ body }) => {
      if (/update \\"api_keys/i.test(body.toString())) throw new ApiError(500, 7500, "broken");
    };
    const args = ["--env", "staging", "--url", ADDRESS, "--read-only"];
    const { status, stderr } = await runVerify(args, { send });
    cloudflare.interfere = () => {};
    expect(status).toBe(1);
    expect(stderr).toMatch(
      /^error: the key key_\w{16} of this verification is not revoked and ends by itself within ten minutes: /,
    );
  });
});

describe("npm run verify", () => {
  it.each([
    [["--url", "https://shop.example", "--write"], 2, "--write needs the store"],
    [["--url", "https://shop.example/v1"], 2, "an address without a path"],
    [["--url", "shop.example"], 2, "an address without a path"],
    [["--write", "--read-only"], 2, "cannot be used with"],
    [["--env", "staging", "--persist-to", "x"], 2, "cannot be used with"],
    [["--header", "no colon"], 2, "a header such as"],
    [["--origin", "https://shop.example/"], 2, "an origin such as"],
    [["production"], 2, "too many arguments"],
    [["--env", "production", "--write"], 1, "nothing was changed, because there is no terminal"],
  ])("refuses %j with status %i", async (args, status, message) => {
    expect(await runVerify(args)).toEqual(failure(message, status));
  });

  it("refuses standard input that is not an API key", async () => {
    const outcome = await runVerify(["--url", service.url], { input: "sord_abc" });
    expect(outcome.status).toBe(1);
    expect(outcome.stderr).toContain("standard input holds no API key");
  });
});
