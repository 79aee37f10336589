import { execFileSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import {
  checkCommit,
  checkSettings,
  labelCommit,
  localChecks,
} from "../../../src/operator/deploy/checks.ts";
import type { z } from "zod";
import { checkLiveWorker, type LiveVersion } from "../../../src/operator/deploy/account.ts";
import { CloudflareApi } from "../../../src/operator/cloudflare-api.ts";
import { readSettings } from "../../../src/operator/settings.ts";
import { runSteps } from "../../../src/operator/deploy/steps.ts";
import type { RemoteEnvironment } from "../../../src/operator/environment.ts";
import { useFakeCloudflare } from "./fake-cloudflare.ts";
import { FakeVersions } from "./fake-versions.ts";

let folder: string;
beforeEach(() => {
  vi.spyOn(process.stdout, "write").mockReturnValue(true);
  folder = mkdtempSync(join(tmpdir(), "store-orders-checks-"));
  // The compiler takes a tenth of the time without the types of the DOM and of later ECMAScript.
  write("tsconfig.json", '{ "compilerOptions": { "noEmit": true, "types": [], "lib": ["es5"] } }');
  write("worker.ts", "export const answer: number = 42;\n");
});
afterEach(() => {
  vi.restoreAllMocks();
  rmSync(folder, { recursive: true });
});

function write(name: string, text: string): void {
  writeFileSync(join(folder, name), text);
}

/**
 * Commits all files of the test's folder, without the machine's git settings. Returns the commit's
 * hash.
 */
function commit(): string {
  git("init", "--quiet");
  git("add", "--all");
  git("commit", "--quiet", "--message=All", "--allow-empty");
  return git("rev-parse", "HEAD").trim();
}

function git(...args: string[]): string {
  return execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@example.com", ...args], {
    cwd: folder,
    encoding: "utf8",
    env: { ...process.env, GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_SYSTEM: "/dev/null" },
  });
}

const check = (env: RemoteEnvironment) =>
  runSteps(localChecks(env, folder), new AbortController().signal);

describe("the checks before a deployment", () => {
  it("accept committed files with correct types", async () => {
    commit();
    await check("production");
    expect(await labelCommit(folder)).toEqual({
      tag: expect.stringMatching(/^[0-9a-f]{40}$/),
      message: expect.stringMatching(/^[0-9a-f]{7,}$/),
    });
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
    expect(await labelCommit(folder)).toEqual({
      tag: expect.stringMatching(/^[0-9a-f]{40}-dirty$/),
      message: expect.stringMatching(/-dirty$/),
    });
  });

  it("refuse files outside a git repository for production", async () => {
    await expect(check("production")).rejects.toThrow("not a git repository");
    expect(await labelCommit(folder)).toEqual({});
  });

  it("refuse type errors, and name the line", async () => {
    write("worker.ts", 'export const answer: number = "42";\n');
    await expect(check("staging")).rejects.toThrow(
      /"Check the Worker's types" failed: worker\.ts\(1,14\): error TS2322/,
    );
  });
});

describe("the check of the commit before a deployment to production", () => {
  const cloudflare = useFakeCloudflare();

  /** Deploys a commit to an environment of the fake account. */
  function serve(env: RemoteEnvironment, tag?: string): void {
    const versions = new FakeVersions();
    versions.deploy(versions.upload("", { tag }), "v1, which has passed its trial");
    const script = { bindings: [], migrationTag: "v1", versions };
    cloudflare.workers.scripts.set(`store-orders-${env}`, script);
  }

  async function checkHead(): Promise<void> {
    const settings = await readSettings("production", folder);
    const api = await CloudflareApi.open();
    await checkCommit({ account: () => api, settings, label: await labelCommit(folder) }, folder);
  }

  beforeEach(() => copyFileSync("wrangler.toml", join(folder, "wrangler.toml")));

  it("accepts the commit on staging, if production has an earlier commit or none", async () => {
    const first = commit();
    serve("staging", first);
    await checkHead();
    const second = commit();
    serve("staging", second);
    serve("production", first);
    await checkHead();
    serve("production", `${second}-dirty`);
    await checkHead();
  });

  it("refuses a commit that is not on staging", async () => {
    serve("staging", commit());
    commit();
    await expect(checkHead()).rejects.toThrow("Deploy this commit to staging first");
  });

  it("refuses an earlier commit than production's, and an unknown commit", async () => {
    const first = commit();
    serve("production", commit());
    git("checkout", "--quiet", first);
    serve("staging", first);
    await expect(checkHead()).rejects.toThrow("which this commit does not contain");
    serve("production", "0123456789012345678901234567890123456789");
    await expect(checkHead()).rejects.toThrow("which this commit does not contain");
  });

  it("refuses to guess if production's version names no commit", async () => {
    serve("staging", commit());
    serve("production");
    await expect(checkHead()).rejects.toThrow(
      /production serves the version \S+, which names no commit.*--skip-checks/,
    );
  });
});

describe("the settings of an environment", () => {
  const read = async (change: (text: string) => string) => {
    write("wrangler.toml", change(readFileSync("wrangler.toml", "utf8")));
    const settings = await readSettings("production", folder);
    checkSettings(settings);
    return settings;
  };

  it("are those of wrangler.toml", async () => {
    expect(await read((text) => text)).toEqual({
      env: "production",
      worker: "store-orders-production",
      databases: { orders: "store-orders-production-orders", keys: "store-orders-production-keys" },
      vars: { REQUEST_LOG: "all" },
      hasCustomDomain: false,
      migrationTag: "v1",
      codeUpdateStrategy: { mode: "immediate" },
      unversioned: { observability: expect.objectContaining({ enabled: true }) },
      isOnWorkersDev: true,
      crons: ["23 * * * *"],
    });
  });

  it.each([
    [
      "a var that would stop the Worker",
      (text: string) => text.replaceAll('REQUEST_LOG = "all"', '$&\nBAN_MIN_STRIKES = "abc"'),
      "Invalid vars: BAN_MIN_STRIKES: must be a whole number",
    ],
    [
      "a custom domain that wrangler would take over",
      (text: string) =>
        text.replace(
          'name = "store-orders-production"',
          '$&\nroutes = [{ pattern = "x.shop.example", custom_domain = true }]',
        ),
      "deploy with --domain NAME",
    ],
    ["invalid TOML", (text: string) => `${text}\n[env.production.vars]\nX = "1"\n`, "Invalid TOML"],
    [
      "no name of a database",
      (text: string) => text.replace('database_name = "store-orders-production-keys"', ""),
      "[env.production] has no database_name for the binding KEYS",
    ],
  ])("are refused with %s", async (_, change, message) => {
    await expect(read(change)).rejects.toThrow(message);
  });
});

it.each([
  ["nearest", "disabled", "is not replicated"],
  ["nearest", "auto", undefined],
  ["primary", "disabled", undefined],
])("LIST_READS is %s, and the replication of the database is %s", async (reads, mode, refusal) => {
  const settings = await readSettings("production");
  const answers = {
    "/d1/database?": Object.values(settings.databases).map((name) => ({ name, uuid: name })),
    "/d1/database/": { read_replication: { mode } },
    "/workers/services/": {
      default_environment: { script: { migration_tag: settings.migrationTag } },
    },
  };
  const call = async (path: string, schema: z.ZodType) =>
    schema.parse(Object.entries(answers).find(([start]) => path.startsWith(start))?.[1]);
  const api = { account: "", call } as unknown as CloudflareApi;
  const live = {
    databases: new Map([
      ["ORDERS", settings.databases.orders],
      ["KEYS", settings.databases.keys],
    ]),
  } as unknown as LiveVersion;
  const checked = checkLiveWorker(api, { ...settings, vars: { LIST_READS: reads } }, live, {});
  await (refusal === undefined ? checked : expect(checked).rejects.toThrow(refusal));
});
