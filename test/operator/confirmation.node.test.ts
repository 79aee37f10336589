import { execFileSync, spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, it } from "vitest";
import { needs } from "../support/needs.ts";

const CONFIRMATION = join(import.meta.dirname, "../../src/operator/confirmation.ts");
const PYTHON = spawnSync("python3", ["-c", "import pty"]).status === 0;

/** Types keys at the question in a terminal. */
const TYPE = `
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:6])
seen = b""
try:
    while b"to go on: " not in seen:
        seen += os.read(terminal, 1000)
    os.write(terminal, sys.argv[6].encode())
except OSError:  # The command has ended without a question.
    pass
if b"The account is Pet shop (f00d)." not in seen:
    sys.exit(seen)
print(os.WEXITSTATUS(os.waitpid(pid, 0)[1]))
`;

it.each([
  ["the environment's name", "production\n", "0\n"],
  ["Ctrl+C", "\u0003", "2\n"],
  ["nothing if stdin is a pipe", null, "3\n"],
])("a question in a terminal is answered by %s", needs("Python", PYTHON), (_, typed, status) => {
  // Stands in for Cloudflare's API, which the question asks for the account's name.
  const script = `globalThis.fetch = async () => Response.json({ result: [{ id: "f00d", name: "Pet shop" }] });
    const { requireConfirmation } = await import(${JSON.stringify(CONFIRMATION)});
    const ended = "ended by SIGINT before the answer: nothing was changed";
    await requireConfirmation({ env: "production", yes: false }, "This ships orders.").catch(({ message }) => {
      process.exitCode = message === ended ? 2 : message.includes("there is no terminal") ? 3 : 1;
    });`;
  const command = `${typed === null ? "echo production |" : "exec"} "$0" --eval "$1"`;
  const args = ["-c", TYPE, "sh", "-c", command, process.execPath, script, typed ?? ""];
  const env = { ...process.env, CLOUDFLARE_API_TOKEN: "token", CLOUDFLARE_ACCOUNT_ID: "f00d" };
  expect(execFileSync("python3", args, { env, encoding: "utf8", timeout: 600_000 })).toBe(status);
});
