import { describe, expect, it, vi } from "vitest";
import { hashSecret, isSecret } from "../../../src/worker/api-keys/secret.ts";
import { keysProgram } from "../../../src/operator/keys/program.ts";
import { ordersProgram } from "../../../src/operator/orders/program.ts";
import * as wrangler from "../../../src/operator/wrangler.ts";
import { runInProcess } from "../in-process.ts";
import { LostConnection, useFakeCloudflare } from "./fake-cloudflare.ts";
import { runFakeWrangler } from "./fake-wrangler.ts";
import { withoutProgress } from "./run-command.ts";

vi.spyOn(wrangler, "runWrangler").mockImplementation(runFakeWrangler);

const PROGRAMS = { keys: keysProgram, orders: ordersProgram };

const cloudflare = useFakeCloudflare("staging");

/** Runs a command with `--env staging`, expects it to succeed, and returns its stdout. */
async function run(
  command: keyof typeof PROGRAMS,
  args: readonly string[],
  input = "",
): Promise<string> {
  const outcome = await runInProcess(PROGRAMS[command](), [...args, "--env", "staging"], input);
  const stderr = withoutProgress(outcome).replace(/^Placing [\d,]+ orders\. .*\n/, "");
  expect({ status: outcome.status, stderr }).toEqual({
    status: 0,
    stderr: "",
  });
  return outcome.stdout;
}

describe("keys --env staging", () => {
  it("creates, lists, resets, rotates and audits a key in the remote database", async () => {
    const name = "O'Brien & Söhne; --";
    const limits = ["--plan", "enterprise", "--per-minute", "5000", "--per-day", "500000"];
    const { key, ...record } = JSON.parse(
      await run("keys", ["create", ...limits, "--name", name, "--json"]),
    );
    expect(isSecret(key)).toBe(true);
    expect(record).toMatchObject({ plan: "enterprise", name, perMinute: 5_000, perDay: 500_000 });
    expect(JSON.parse(await run("keys", ["list", "--json"]))).toEqual([record]);
    expect(JSON.parse(await run("keys", ["reset", record.id, "--yes", "--json"]))).toEqual(record);
    const rotated = JSON.parse(await run("keys", ["rotate", record.id, "--json"]));
    expect(rotated).toEqual({
      ...record,
      key: rotated.key,
      lastFour: rotated.key.slice(-4),
      formerKeyEndsAt: expect.any(String),
    });
    const trail: { action: string }[] = JSON.parse(await run("keys", ["audit", "--json"]));
    expect(trail.map(({ action }) => action)).toEqual(["rotate", "reset", "create"]);

    const { sqlite } = cloudflare.d1.find("store-orders-staging-keys");
    const stored = sqlite.prepare("SELECT hash, revision, resets FROM api_keys").all();
    expect(stored).toEqual([{ hash: hashSecret(rotated.key), revision: 2, resets: 1 }]);
    const former = sqlite.prepare("SELECT hash, key_id FROM former_key_hashes").all();
    expect(former).toEqual([{ hash: hashSecret(key), key_id: record.id }]);
  });
});

describe("a connection that is lost after a key was stored", () => {
  it.each([
    ["create", "--plan", "pro", "--name", "Lost"],
    ["rotate", "ID", "--grace", "0", "--yes"],
  ])("does not lose the new secret of keys %s", async (...args) => {
    const created = await run("keys", ["create", "--plan", "pro", "--name", "Zoo", "--json"]);
    const keys = cloudflare.d1.find("store-orders-staging-keys");
    let isLost = false;
    cloudflare.interfere = ({ body }) => {
      if (isLost || !body.includes("insert into")) return;
      isLost = true;
      keys.execute((JSON.parse(body.toString()) as { sql: string }).sql, []);
      throw new LostConnection();
    };
    const line = args.map((word) => (word === "ID" ? JSON.parse(created).id : word));
    const { key } = JSON.parse(await run("keys", [...line, "--json"]));
    expect(isLost).toBe(true);
    const stored = keys.sqlite.prepare("SELECT hash FROM api_keys").all();
    expect(stored).toContainEqual({ hash: hashSecret(key) });
  });

  it("is an error if the key was not stored", async () => {
    cloudflare.interfere = ({ body }) => {
      if (body.includes("insert into")) throw new LostConnection();
    };
    const line = ["create", "--plan", "pro", "--name", "Never", "--env", "staging"];
    const { status, stdout, stderr } = await runInProcess(keysProgram(), line);
    cloudflare.interfere = () => {};
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect(stderr).toContain("It is not known whether the change was made");
  });
});

describe("a token for keys", () => {
  it("needs only the permission for D1", async () => {
    const paths: string[] = [];
    cloudflare.interfere = ({ path }) => void paths.push(path);
    await run("keys", ["create", "--plan", "pro", "--name", "Zoo", "--json"]);
    await run("keys", ["list"]);
    cloudflare.interfere = () => {};
    expect(paths.length).toBeGreaterThan(1);
    expect(paths.filter((path) => !path.startsWith("/d1/"))).toEqual([]);
  });
});

describe("changes of keys that nobody can undo", () => {
  const keys = () =>
    cloudflare.d1
      .find("store-orders-staging-keys")
      .sqlite.prepare("SELECT * FROM api_keys ORDER BY id")
      .all();

  it.each([["revoke"], ["reset"], ["rotate", "--grace", "0"], ["rotate", "--grace", "1s"]])(
    "keys %s changes nothing without a confirmation, and needs none with --yes",
    async (command, ...args) => {
      const created = await run("keys", ["create", "--plan", "pro", "--name", "Zoo", "--json"]);
      const { id } = JSON.parse(created);
      const before = keys();
      const line = [command, id, ...args, "--env", "staging"];
      const refused = await runInProcess(keysProgram(), line);
      expect(refused).toMatchObject({ status: 1, stdout: "" });
      expect(refused.stderr).toContain(`The key ${id} in staging: Zoo, plan pro.\n`);
      expect(refused.stderr).toMatch(/^error: nothing was changed, because there is no terminal /m);
      expect(refused.stderr).toContain(`\n  npm run keys -- ${line.join(" ")} --yes\n`);
      expect(keys()).toEqual(before);
      await run("keys", [command, id, ...args, "--yes", "--json"]);
      expect(keys()).not.toEqual(before);
    },
  );

  it("keys revoke names the key that it asks about", async () => {
    const { id } = JSON.parse(
      await run("keys", ["create", "--plan", "pro", "--name", "Pet shop", "--json"]),
    );
    const asked = await runInProcess(keysProgram(), ["revoke", id, "--env", "staging"], "no\n", {
      isTerminal: true,
    });
    expect(asked).toMatchObject({ status: 1, stdout: "" });
    expect(asked.stderr).toContain(
      `The key ${id} in staging: Pet shop, plan pro.\nThis ends its present secret`,
    );
    expect(asked.stderr).toContain("error: not confirmed: nothing was changed");
    const agreed = await runInProcess(
      keysProgram(),
      ["revoke", id, "--env", "staging"],
      "staging\n",
      { isTerminal: true },
    );
    expect(agreed).toMatchObject({ status: 0 });
  });
});

describe("keys usage --env staging", () => {
  it("reads the usage that keys have reported to the remote database", async () => {
    const created = await run("keys", ["create", "--plan", "pro", "--name", "Zoo", "--json"]);
    const { id } = JSON.parse(created);
    const { sqlite } = cloudflare.d1.find("store-orders-staging-keys");
    const today = new Date().toISOString().slice(0, 10);
    sqlite
      .prepare("INSERT INTO key_usage VALUES (?, ?, 7, 1, 0, 0, 3, 7, 300, 10000, ?)")
      .run(id, today, Date.now());
    const all = JSON.parse(await run("keys", ["usage", "--json", "--days", "2"]));
    expect(all[0]).toMatchObject({ id, admitted: 7, refused: 1, minutePeak: 0.01 });
    const one = JSON.parse(await run("keys", ["usage", id, "--json", "--days", "2"]));
    // `completeBy` of the two outputs differs, because it is an hour after the time of each
    // command.
    expect(one).toEqual([{ ...all[0], completeBy: one[0].completeBy }]);
  });
});

describe("orders --env staging", () => {
  const lines = [
    '{"id":-9223372036854775808,"petId":9223372036854775807,"complete":false,"status":"shipped"}',
    ...Array.from({ length: 2_000 }, (_, id) => `{"id":${id},"quantity":${id},"status":"pending"}`),
    '{"id":9223372036854775807,"shipDate":"2026-11-20T08:30:00.000Z","status":"pending"}',
  ];

  it("exports the imported orders byte for byte, including extreme int64 values", async () => {
    const file = lines.map((line) => `${line}\n`).join("");
    const imported = await run("orders", ["import", "-", "--json"], file);
    expect(JSON.parse(imported)).toEqual({ imported: lines.length });
    expect(await run("orders", ["export"])).toBe(file);
  });
});
