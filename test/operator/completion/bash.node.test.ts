import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { completionProgram } from "../../../src/operator/completion/program.ts";
import { runCommand } from "../deploy/run-command.ts";
import { runInProcess } from "../in-process.ts";

const folder = mkdtempSync(join(tmpdir(), "store-orders-completion-"));
const file = join(folder, "completion.bash");

beforeAll(async () => {
  const { status, stdout, stderr } = await runInProcess(completionProgram(), ["bash"]);
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  writeFileSync(file, stdout);
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Lets a real bash complete the last of `words`, and returns the proposed completions. */
async function complete(...words: string[]): Promise<string[]> {
  const script = `_npm() { COMPREPLY=(npms-own); }
complete -o default -F _npm npm
source "$0"
COMP_WORDS=(npm "$@") COMP_CWORD=$#
_store_orders npm
printf '%s\\n' "\${COMPREPLY[@]}"`;
  const outcome = await runCommand("bash", ["-c", script, file, ...words], { env: {} });
  expect(outcome).toMatchObject({ status: 0, stderr: "" });
  return outcome.stdout.split("\n").filter((line) => line !== "");
}

it.each([
  [
    ["run", "keys", "--", "re"],
    ["revoke", "reset"],
  ],
  [["run", "-s", "keys", "--", "list", "--pl"], ["--plan"]],
  [
    ["run", "keys", "--", "create", "--plan", ""],
    ["free", "pro", "business", "enterprise"],
  ],
  [["run", "keys", "--", "list", "--json", "--state", "re"], ["revoked"]],
  [
    ["run", "time-travel", "--", "restore", "--database", ""],
    ["orders", "keys"],
  ],
  [["start", "--", "--per"], ["--persist-to"]],
  [["run", "completion", "--", "z"], ["zsh"]],
  // The completion script proposes nothing for the imported file, so bash completes file names.
  [["run", "orders", "--", "import", ""], []],
  [["run", "ke"], ["npms-own"]],
])("bash completes %j", async (words, expected) => {
  expect((await complete(...words)).toSorted()).toEqual(expected.toSorted());
});

it("refuses a shell without a script", async () => {
  const { status, stdout, stderr } = await runInProcess(completionProgram(), ["tcsh"]);
  expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
  expect(stderr).toContain("Allowed choices are bash, zsh, fish");
});
