import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { beforeEach, expect, it, vi } from "vitest";
import { hashSecret } from "../../../src/rules/keys/secret.ts";
import { keysProgram } from "../../../src/operator/keys/program.ts";
import * as wrangler from "../../../src/operator/wrangler.ts";
import { failure, runInProcess } from "../commands.ts";
import { runRealWrangler, useFakeCloudflare } from "../deploy/fake-cloudflare.ts";
import { interrupt, lose } from "../deploy/faults.ts";

const cloudflare = useFakeCloudflare("staging");
const keys = () =>
  cloudflare.d1.find("store-orders-staging-keys").sqlite.prepare("SELECT * FROM api_keys").all();

/** The key that `ID` stands for in a command. */
let id: string;
beforeEach(async () => ({ id } = await json("create --plan pro --name Shop")));

/** Runs a command of `npm run keys` on staging, in a terminal if its input is given. */
function run(line: string, input?: string) {
  const args = [...line.replace("ID", id).split(" "), "--env", "staging"];
  return runInProcess(keysProgram(), args, input, { isTerminal: input !== undefined });
}

async function json(line: string): Promise<any> {
  const { status, stdout, stderr } = await run(`${line} --json`);
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  return JSON.parse(stdout);
}

it("the real wrangler prints the token with which commands log in, and does not receive the terminal's Ctrl+C", async () => {
  const printing = runRealWrangler(["auth", "token"]);
  const columns = ["-A", "-ww", "-o", "pid=,ppid=,pgid=,args="];
  const { stdout } = await promisify(execFile)("ps", columns);
  const child = new RegExp(`^ *(\\d+) +${process.pid} +(\\d+) .*wrangler\\.js`, "m").exec(stdout);
  // It has a process group of its own.
  expect(child?.[2]).toBe(child?.[1] ?? "a child");
  vi.mocked(wrangler.runWrangler).mockResolvedValueOnce(`A notice.\n${await printing}`);
  vi.stubEnv("CLOUDFLARE_API_TOKEN", "");
  await json("list");
  cloudflare.logIn();
});

it.each(["create --plan pro --name Lost", "rotate ID --grace 0 --yes"])(
  "keys %s needs only the permission for D1, and does not lose the secret whose answer is lost",
  async (line) => {
    // Gives the key a former secret that has already expired.
    await json("rotate ID --grace 0 --yes");
    let isLost = false;
    cloudflare.interfere = ({ path, body }) => {
      expect.soft(path).toMatch(/^\/d1\//);
      if (isLost || !body.includes("insert into")) return undefined;
      isLost = true;
      return lose;
    };
    const { key } = await json(line);
    cloudflare.interfere = () => {};
    expect(isLost).toBe(true);
    expect(keys()).toContainEqual(expect.objectContaining({ hash: hashSecret(key) }));
  },
);

it.each(["revoke ID", "reset ID", "rotate ID --grace 59m"])(
  "keys %s changes nothing unless the operator types the environment",
  async (line) => {
    const before = keys();
    expect(await run(line)).toEqual(failure(`The key ${id} in staging: Shop, plan pro.\n`));
    const refused = failure("error: not confirmed: nothing was changed");
    expect(await run(line, "stag\n")).toEqual(refused);
    expect(keys()).toEqual(before);
    expect(await run(line, "staging\n")).toMatchObject({ status: 0 });
    expect(keys()).not.toEqual(before);
  },
);

it.each(["update ID --plan business", "revoke ID --yes"])(
  "keys %s that a signal ends before its answer is typed again",
  async (line) => {
    cloudflare.interfere = ({ body }) => (body.includes("insert into") ? interrupt : undefined);
    expect(await run(line)).toEqual(failure("was changed. Run the same command again\n"));
    cloudflare.interfere = () => {};
    const changes = await json("audit ID");
    expect(await run(line)).toMatchObject({ status: 0 });
    expect(await json("audit ID")).toEqual(changes);
  },
);

it.each(["create --plan pro --name New", "rotate ID", "reset ID --yes"])(
  "keys %s that ends before its answer names the key to look at",
  async (line) => {
    for (const end of [interrupt, lose]) {
      let isOver = false;
      cloudflare.interfere = ({ body }) => {
        if (isOver && end === lose) lose();
        isOver ||= body.includes("insert into");
        return isOver ? end : undefined;
      };
      const outcome = await run(line);
      cloudflare.interfere = () => {};
      expect(outcome).toEqual(failure("before you run the same command again"));
      const named = /`npm run keys -- audit (\S+) --env staging`/.exec(outcome.stderr)?.[1] ?? "";
      expect(outcome.stderr).toContain(`npm run keys -- rotate ${named} --env staging`);
      expect((await json(`audit ${named}`))[0]).toMatchObject({ action: line.split(" ")[0] });
    }
  },
);
