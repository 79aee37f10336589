import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { describeCommit, localChecks } from "../../../src/operator/deploy/checks.ts";
import { runSteps } from "../../../src/operator/deploy/steps.ts";
import type { RemoteEnvironment } from "../../../src/operator/environment.ts";

let folder: string;
beforeEach(() => {
  vi.spyOn(process.stdout, "write").mockReturnValue(true);
  folder = mkdtempSync(join(tmpdir(), "store-orders-checks-"));
  write("tsconfig.json", '{ "compilerOptions": { "noEmit": true, "types": [] } }');
  write("worker.ts", "export const answer: number = 42;\n");
});
afterEach(() => {
  vi.restoreAllMocks();
  rmSync(folder, { recursive: true });
});

function write(name: string, text: string): void {
  writeFileSync(join(folder, name), text);
}

/** Commits everything in a repository of its own, without the settings of this machine. */
function commit(): void {
  const git = (...args: string[]) =>
    execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@example.com", ...args], {
      cwd: folder,
      env: { ...process.env, GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_SYSTEM: "/dev/null" },
    });
  git("init", "--quiet");
  git("add", "--all");
  git("commit", "--quiet", "--message=All");
}

const check = (env: RemoteEnvironment) => runSteps(env, localChecks(env, folder));

describe("the checks before a deployment", () => {
  it("accept committed files with correct types", async () => {
    commit();
    await check("production");
    expect(await describeCommit(folder)).toMatch(/^[0-9a-f]{7,}$/);
  });

  it("refuse uncommitted files for production, but not for staging", async () => {
    commit();
    write("worker.ts", "export const answer: number = 43;\n");
    write("new file.ts", "");
    await expect(check("production")).rejects.toThrow(
      '"Check that everything is committed" failed: not committed: worker.ts, "new file.ts"\n' +
        "Nothing was changed. In an emergency: --skip-checks.\n" +
        "Not done: Check the Worker's types.\n",
    );
    await check("staging");
    expect(await describeCommit(folder)).toMatch(/-dirty$/);
  });

  it("refuse files in no repository for production", async () => {
    await expect(check("production")).rejects.toThrow("not a git repository");
    expect(await describeCommit(folder)).toBeUndefined();
  });

  it("refuse wrong types, and name the line", async () => {
    write("worker.ts", 'export const answer: number = "42";\n');
    await expect(check("staging")).rejects.toThrow(
      /"Check the Worker's types" failed: worker\.ts\(1,14\): error TS2322/,
    );
  });
});
