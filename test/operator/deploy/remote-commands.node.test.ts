import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { afterEach, describe, expect, it, vi } from "vitest";
import { hashSecret } from "../../../src/rules/keys/secret.ts";
import { keysProgram } from "../../../src/operator/keys/program.ts";
import * as wrangler from "../../../src/operator/wrangler.ts";
import { failure, runInProcess } from "../in-process.ts";
import { LostConnection, useFakeCloudflare } from "./fake-cloudflare.ts";
import { runFakeWrangler } from "./fake-wrangler.ts";
import { shortenPauses } from "./faults.ts";
import { bodyOf } from "./route.ts";

const runRealWrangler = wrangler.runWrangler;
vi.spyOn(wrangler, "runWrangler").mockImplementation(runFakeWrangler);

const STAGING = ["--env", "staging"];
const CONTROL_C = "\u0003";

const cloudflare = useFakeCloudflare("staging");
afterEach(() => {
  vi.unstubAllGlobals();
  cloudflare.interfere = () => {};
});

const database = () => cloudflare.d1.find("store-orders-staging-keys");

async function run(args: readonly string[]): Promise<string> {
  const { status, stdout, stderr } = await runInProcess(keysProgram(), [...args, ...STAGING]);
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  return stdout;
}

async function createKey(name = "Zoo"): Promise<string> {
  const created = await run(["create", "--plan", "pro", "--name", name, "--json"]);
  return JSON.parse(created).id;
}

describe("the real wrangler", () => {
  it("prints the token, with which commands log in", async () => {
    const printed = await runRealWrangler(["auth", "token", "--json"]);
    vi.mocked(wrangler.runWrangler).mockResolvedValueOnce(printed);
    vi.stubEnv("CLOUDFLARE_API_TOKEN", "");
    await createKey();
    vi.stubEnv("CLOUDFLARE_API_TOKEN", cloudflare.environment["CLOUDFLARE_API_TOKEN"]);
  });

  it("runs in a process group of its own, which the terminal's Ctrl+C does not reach", async () => {
    const running = runRealWrangler(["--version"]);
    const columns = ["-A", "-ww", "-o", "pid=,ppid=,pgid=,args="];
    const { stdout } = await promisify(execFile)("ps", columns);
    const child = new RegExp(`^ *(\\d+) +${process.pid} +(\\d+) .*wrangler\\.js`, "m").exec(stdout);
    expect(child?.[2]).toBe(child?.[1] ?? "a child");
    await running;
  });

  it("says what has failed, also in JSON", async () => {
    const args = ["d1", "execute", "ORDERS", "--remote", "--json", "--yes", ...STAGING];
    const imported = runRealWrangler([...args, "--file=none.sql"]);
    await expect(imported).rejects.toThrow(/^Unable to read SQL text file "none.sql"/);
  });
});

describe("keys --env staging", () => {
  it.each([
    ["create", "--plan", "pro", "--name", "Lost"],
    ["rotate", "ID", "--grace", "0", "--yes"],
  ])("%s does not lose the new secret if the connection is lost after it", async (...args) => {
    const id = await createKey();
    // Gives the key a former secret that has already expired.
    await run(["rotate", id, "--grace", "0", "--yes", "--json"]);
    let isLost = false;
    cloudflare.interfere = (call) => {
      if (isLost || !call.body.includes("insert into")) return;
      isLost = true;
      database().execute(...bodyOf<{ batch: { sql: string; params: string[] }[] }>(call).batch);
      // Bans the key before the command checks whether its change was stored.
      database().sqlite.exec(
        "INSERT OR IGNORE INTO key_bans (key_id, number, began_at, ends_at) SELECT id, 1, 0, 9e15 FROM api_keys",
      );
      throw new LostConnection();
    };
    const line = args.map((word) => (word === "ID" ? id : word));
    const { key } = JSON.parse(await run([...line, "--json"]));
    expect(isLost).toBe(true);
    const stored = database().sqlite.prepare("SELECT hash FROM api_keys").all();
    expect(stored).toContainEqual({ hash: hashSecret(key) });
  });

  it.each([
    ["before a key is stored", false],
    ["before a key is stored, and stays lost", true],
  ])("fails if the connection is lost %s", async (_, staysLost) => {
    shortenPauses();
    let isLost = false;
    cloudflare.interfere = ({ body }) => {
      isLost = (isLost && staysLost) || body.includes("insert into");
      if (isLost) throw new LostConnection();
    };
    const line = ["create", "--plan", "pro", "--name", "Never", ...STAGING];
    const outcome = await runInProcess(keysProgram(), line);
    expect(outcome).toEqual(failure("It is not known whether the change was made"));
    if (staysLost) expect(outcome).toEqual(failure("before you run the same command again"));
  });

  it("needs only the permission for D1", async () => {
    const paths: string[] = [];
    cloudflare.interfere = ({ path }) => void paths.push(path);
    // A grace of an hour needs no confirmation.
    await run(["rotate", await createKey(), "--grace", "1h", "--json"]);
    expect(paths.length).toBeGreaterThan(1);
    expect(paths.filter((path) => !path.startsWith("/d1/"))).toEqual([]);
  });

  it.each([["revoke"], ["reset"], ["rotate", "--grace", "0"], ["rotate", "--grace", "59m"]])(
    "%s changes nothing unless the operator types the environment",
    async (command, ...args) => {
      const keys = () => database().sqlite.prepare("SELECT * FROM api_keys ORDER BY id").all();
      const id = await createKey("Pet shop");
      const before = keys();
      const line = [command, id, ...args, ...STAGING];
      const question = `The key ${id} in staging: Pet shop, plan pro.\n`;
      const refused = await runInProcess(keysProgram(), line);
      expect(refused).toEqual(failure(question));
      expect(refused.stderr).toMatch(/^error: nothing was changed, because there is no terminal /m);
      const type = (typed: string) =>
        runInProcess(keysProgram(), line, typed, { isTerminal: true });
      for (const typed of ["production\n", "stag\n", "", CONTROL_C]) {
        expect(await type(typed)).toEqual(failure("error: not confirmed: nothing was changed"));
      }
      expect(keys()).toEqual(before);
      expect(await type("staging\n")).toMatchObject({ status: 0 });
      expect(keys()).not.toEqual(before);
    },
  );
});
