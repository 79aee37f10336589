import { execFileSync } from "node:child_process";
import {
  appendFileSync,
  copyFileSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { CloudflareApi } from "../../../src/operator/cloudflare-api.ts";
import {
  checkCommit,
  labelCommit,
  localChecks,
  readCheckedSettings,
} from "../../../src/operator/deploy/checks.ts";
import type { RemoteEnvironment } from "../../../src/operator/arguments.ts";
import { readSettings } from "../../../src/operator/settings.ts";
import { useFakeCloudflare } from "./fake-cloudflare.ts";

const PASSED = "v1, which has passed its trial";

const cloudflare = useFakeCloudflare();
let folder: string;
beforeEach(() => {
  vi.spyOn(process.stdout, "write").mockReturnValue(true);
  folder = mkdtempSync(join(tmpdir(), "store-orders-checks-"));
  // The compiler takes a tenth of the time without the types of the DOM and of later ECMAScript.
  write("tsconfig.json", '{ "compilerOptions": { "noEmit": true, "types": [], "lib": ["es5"] } }');
  write("worker.ts", "export const answer: number = 42;\n");
  copyFileSync("wrangler.toml", join(folder, "wrangler.toml"));
});
afterEach(() => {
  vi.restoreAllMocks();
  rmSync(folder, { recursive: true });
});

function write(name: string, text: string): void {
  writeFileSync(join(folder, name), text);
}

function commit(): string {
  git("init", "--quiet");
  git("add", "--all");
  git("commit", "--quiet", "--message=All", "--allow-empty");
  return git("rev-parse", "HEAD").trim();
}

/** Runs git without the machine's settings. */
function git(...args: string[]): string {
  return execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@example.com", ...args], {
    cwd: folder,
    encoding: "utf8",
    env: { ...process.env, GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_SYSTEM: "/dev/null" },
  });
}

describe("the checks before a deployment", () => {
  const check = async (env: RemoteEnvironment) => {
    for (const { run } of localChecks(env, folder)) await run();
  };

  it("refuse uncommitted files for production, but not for staging", async () => {
    commit();
    await check("production");
    expect(await labelCommit(folder)).toEqual({
      tag: expect.stringMatching(/^[0-9a-f]{40}$/),
      message: expect.stringMatching(/^[0-9a-f]{7,}$/),
    });
    write("worker.ts", "export const answer: number = 43;\n");
    write("new file.ts", "");
    await expect(check("production")).rejects.toThrow(
      'not committed:\nM worker.ts\n?? "new file.ts"\nIn an emergency: --skip-checks',
    );
    await check("staging");
    expect(await labelCommit(folder)).toEqual({
      tag: expect.stringMatching(/^[0-9a-f]{40}-dirty$/),
      message: expect.stringMatching(/-dirty$/),
    });
  });

  it("refuse files outside a git repository for production, and type errors", async () => {
    await expect(check("production")).rejects.toThrow("not a git repository");
    expect(await labelCommit(folder)).toEqual({});
    write("worker.ts", 'export const answer: number = "42";\n');
    await expect(check("staging")).rejects.toThrow(/^worker\.ts\(1,14\): error TS2322/);
  });
});

it("a commit for production was tried on staging, and contains the commit of production", async () => {
  const [first, second, third] = [commit(), commit(), commit()];
  git("checkout", "--quiet", second);
  const settings = await readSettings("production", folder);
  const api = await CloudflareApi.open();
  const label = await labelCommit(folder);
  const refusal = async (staging: string, production?: string, message = PASSED) => {
    const tried = cloudflare.deployService("staging", { commit: staging, message: PASSED });
    tried.versions.deploy(tried.before, message);
    cloudflare.deployService("production", { commit: production });
    const refused = await checkCommit(api, settings, label, folder).catch((error) => error);
    return (refused as Error | undefined)?.message;
  };
  cloudflare.deployService("staging", { commit: second, message: PASSED });
  await checkCommit(api, settings, label, folder);
  expect(await refusal(second, first)).toBeUndefined();
  expect(await refusal(second, `${second}-dirty`)).toBeUndefined();
  expect(await refusal(first, first)).toContain("Deploy this commit to staging first");
  expect(await refusal(second, first, "v1")).toContain("has not passed its trial there");
  expect(await refusal(second, third)).toContain("which this commit does not contain");
  expect(await refusal(second, "0".repeat(40))).toContain("which this commit does not contain");
  expect(await refusal(second)).toMatch(/the version \S+, which names no commit.*--skip-checks/);
});

describe("the settings of an environment", () => {
  it("are those of wrangler.toml", async () => {
    appendFileSync(join(folder, "wrangler.toml"), '[[migrations]]\ntag = "v2"\n');
    expect(await readCheckedSettings("production", folder)).toEqual({
      env: "production",
      worker: "store-orders-production",
      databases: { orders: "store-orders-production-orders", keys: "store-orders-production-keys" },
      vars: { REQUEST_LOG: "all" },
      customDomains: [],
      migrationTag: "v2",
      codeUpdateStrategy: { mode: "immediate" },
      unversioned: { observability: expect.objectContaining({ enabled: true }) },
      isOnWorkersDev: true,
      crons: ["23 * * * *"],
    });
  });

  it.each([
    // With this value of a var, the Worker would not start.
    [/REQUEST_LOG = "all"/g, '$&\nBAN_MIN_STRIKES = "abc"', "must be a whole number"],
    [/$/, '\n[env.production.vars]\nX = "1"\n', "Invalid TOML"],
    [/database_name = "\S+production-keys"/, "", "no database_name for the binding KEYS"],
  ])("are refused with another %s", async (part, other, message) => {
    write("wrangler.toml", readFileSync("wrangler.toml", "utf8").replace(part, other));
    await expect(readCheckedSettings("production", folder)).rejects.toThrow(message);
  });
});
