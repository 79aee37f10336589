import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, it, vi } from "vitest";
import { hashSecret } from "../../../src/rules/keys/secret.ts";
import { keysProgram } from "../../../src/operator/keys/program.ts";
import * as wrangler from "../../../src/operator/wrangler.ts";
import { failure, runInProcess } from "../in-process.ts";
import { useFakeCloudflare } from "./fake-cloudflare.ts";
import { runFakeWrangler } from "./fake-wrangler.ts";
import { FAULTS } from "./faults.ts";

const runRealWrangler = wrangler.runWrangler;
const runWrangler = vi.spyOn(wrangler, "runWrangler").mockImplementation(runFakeWrangler);

const STAGING = ["--env", "staging"];
const cloudflare = useFakeCloudflare("staging");
const sqlite = () => cloudflare.d1.find("store-orders-staging-keys").sqlite;

async function runJson(...args: readonly string[]): Promise<{ id: string; key: string }> {
  const line = [...args, ...STAGING, "--json"];
  const { status, stdout, stderr } = await runInProcess(keysProgram(), line);
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  return JSON.parse(stdout);
}
const create = () => runJson("create", "--plan", "pro", "--name", "Pet shop");

it("the real wrangler prints the token with which commands log in, and does not receive the terminal's Ctrl+C", async () => {
  const printing = runRealWrangler(["auth", "token"]);
  const columns = ["-A", "-ww", "-o", "pid=,ppid=,pgid=,args="];
  const { stdout } = await promisify(execFile)("ps", columns);
  const child = new RegExp(`^ *(\\d+) +${process.pid} +(\\d+) .*wrangler\\.js`, "m").exec(stdout);
  // It has a process group of its own.
  expect(child?.[2]).toBe(child?.[1] ?? "a child");
  runWrangler.mockResolvedValueOnce(`A notice.\n${await printing}`);
  vi.stubEnv("CLOUDFLARE_API_TOKEN", "");
  await create();
  vi.stubEnv("CLOUDFLARE_API_TOKEN", cloudflare.environment["CLOUDFLARE_API_TOKEN"]);
});

it.each([
  ["create", "--plan", "pro", "--name", "Lost"],
  ["rotate", "ID", "--grace", "0", "--yes"],
])(
  "keys %s needs only the permission for D1, and does not lose the secret whose answer is lost",
  async (...args) => {
    const { id } = await create();
    // Gives the key a former secret that has already expired.
    await runJson("rotate", id, "--grace", "0", "--yes");
    let isLost = false;
    cloudflare.interfere = ({ path, body }) => {
      expect.soft(path).toMatch(/^\/d1\//);
      if (isLost || !body.includes("insert into")) return undefined;
      isLost = true;
      return FAULTS["a connection that is lost after it"]?.(0);
    };
    const { key } = await runJson(...args.map((word) => (word === "ID" ? id : word)));
    cloudflare.interfere = () => {};
    expect(isLost).toBe(true);
    const stored = sqlite().prepare("SELECT hash FROM api_keys").all();
    expect(stored).toContainEqual({ hash: hashSecret(key) });
  },
);

it.each([["revoke"], ["reset"], ["rotate", "--grace", "59m"]])(
  "keys %s changes nothing unless the operator types the environment",
  async (command, ...args) => {
    const keys = () => sqlite().prepare("SELECT * FROM api_keys ORDER BY id").all();
    const { id } = await create();
    const before = keys();
    const line = [command, id, ...args, ...STAGING];
    const refused = await runInProcess(keysProgram(), line);
    expect(refused).toEqual(failure(`The key ${id} in staging: Pet shop, plan pro.\n`));
    const type = (typed: string) => runInProcess(keysProgram(), line, typed, { isTerminal: true });
    expect(await type("stag\n")).toEqual(failure("error: not confirmed: nothing was changed"));
    expect(keys()).toEqual(before);
    expect(await type("staging\n")).toMatchObject({ status: 0 });
    expect(keys()).not.toEqual(before);
  },
);
