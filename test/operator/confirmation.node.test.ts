import { execFileSync, spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, it } from "vitest";

const CONFIRMATION = join(import.meta.dirname, "../../src/operator/confirmation.ts");
const PYTHON = spawnSync("python3", ["-c", "import pty"]).status === 0;

/** Types keys at the question in a terminal. Continues a stopped command, as a shell's `fg` does. */
const TYPE = `
import os, pty, signal, sys
pid, terminal = pty.fork()
if pid == 0:
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        os.execvp(sys.argv[1], sys.argv[1:4])
    while True:
        status = os.waitpid(child, os.WUNTRACED)[1]
        if not os.WIFSTOPPED(status):
            os._exit(os.WEXITSTATUS(status))
        os.write(1, b"continued")
        os.killpg(child, signal.SIGCONT)
def read_until(text):
    seen = b""
    while text not in seen:
        seen += os.read(terminal, 1000)
read_until(b"to go on: ")
for key in sys.argv[4:]:
    os.write(terminal, key.encode().decode("unicode_escape").encode())
    if key == "\\\\x1a":
        read_until(b"continued")
print("status", os.WEXITSTATUS(os.waitpid(pid, 0)[1]))
`;

function answer(...keys: string[]): string {
  const script = `const { requireConfirmation } = await import(${JSON.stringify(CONFIRMATION)});
    await requireConfirmation("production", "This ships orders.").catch(({ message }) => {
      process.exitCode = message === "ended by SIGINT before the answer: nothing was changed" ? 3 : 1;
    });`;
  const args = ["-c", TYPE, process.execPath, "--eval", script, ...keys];
  return execFileSync("python3", args, { encoding: "utf8", timeout: 20_000 });
}

it.skipIf(!PYTHON).each([
  [["production\\n"], "status 0\n"],
  [["yes\\n"], "status 1\n"],
  [["\\x04"], "status 1\n"],
  [["\\x03"], "status 3\n"],
  [["\\x1a", "production\\n"], "status 0\n"],
])("a question in a terminal is answered by %j", (keys, outcome) => {
  expect(answer(...keys)).toBe(outcome);
});
