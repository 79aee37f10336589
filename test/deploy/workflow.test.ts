import { execFileSync } from "node:child_process";
import { accessSync, constants, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { FakeCloudflare } from "./fake-cloudflare.ts";
import { runCommand } from "./run-command.ts";
import { evaluate, type Job, workflow, workflowErrors } from "./workflow.ts";

const { jobs } = workflow;
const steps = Object.values(jobs).flatMap((job) => job.steps);
const secretsOf = ({ steps: own }: Job) => own.map(({ env }) => env).filter(Boolean);

const EVENTS = {
  "a push to main": { event_name: "push", ref: "refs/heads/main" },
  "a push to a branch": { event_name: "push", ref: "refs/heads/mend" },
  "a push to a branch named like a tag": { event_name: "push", ref: "refs/heads/v1" },
  "a tag of a version": { event_name: "push", ref: "refs/tags/v1.2.3" },
  "a pull request": { event_name: "pull_request", ref: "refs/pull/7/merge" },
};

/** The jobs that an event sets off. */
function jobsOf(event: { event_name: string; ref: string }): string[] {
  return Object.entries(jobs)
    .filter(([, job]) => job.if === undefined || evaluate(job.if, event))
    .map(([name]) => name);
}

describe("the workflow", () => {
  it("is what GitHub's parser accepts", async () => {
    expect(await workflowErrors()).toEqual([]);
    expect(await workflowErrors("on: push\njobs:\n  test:\n    step: []\n")).not.toEqual([]);
  });

  it("tests every push and pull request", () => {
    expect(workflow.on).toEqual({
      push: { branches: ["**"], tags: ["v*"] },
      pull_request: null,
    });
    expect(jobs["test"]?.steps.map(({ run }) => run).filter(Boolean)).toEqual([".ci/run"]);
    expect(jobs["test"]?.strategy?.matrix).toEqual({ node: [20, 24] });
    accessSync(".ci/run", constants.X_OK);
  });

  it.each([
    ["a push to main", ["test", "staging"]],
    ["a push to a branch", ["test"]],
    ["a push to a branch named like a tag", ["test"]],
    ["a tag of a version", ["test", "production"]],
    ["a pull request", ["test"]],
  ] as const)("on %s runs %j", (event, expected) => {
    expect(jobsOf(EVENTS[event])).toEqual(expected);
  });

  it("never cancels what leads to a deployment", () => {
    const cancels = (event: keyof typeof EVENTS) =>
      evaluate(workflow.concurrency["cancel-in-progress"], EVENTS[event]);
    expect(cancels("a push to a branch")).toBe(true);
    expect(cancels("a pull request")).toBe(true);
    expect(cancels("a push to main")).toBe(false);
    expect(cancels("a tag of a version")).toBe(false);
  });

  it("may read the repository and nothing else, and runs only pinned actions, for a bounded time", () => {
    expect(workflow.permissions).toEqual({ contents: "read" });
    for (const job of Object.values(jobs)) {
      expect(job.permissions).toBeUndefined();
      expect(job["timeout-minutes"]).toBeLessThanOrEqual(30);
    }
    for (const { uses, with: inputs } of steps.filter((step) => step.uses !== undefined)) {
      expect(uses).toMatch(/^actions\/(checkout|setup-node)@[0-9a-f]{40}$/);
      if (uses?.startsWith("actions/checkout")) {
        expect(inputs).toMatchObject({ "persist-credentials": false });
      }
    }
  });

  it("runs only scripts that there are", () => {
    const { scripts } = JSON.parse(readFileSync("package.json", "utf8"));
    const named = steps.flatMap(({ run }) => /npm run ([\w:-]+)/.exec(run ?? "")?.[1] ?? []);
    expect(named).toEqual(["deploy", "deploy"]);
    for (const name of named) expect(scripts).toHaveProperty(name);
  });

  it.each(["staging", "production"])(
    "deploys %s after the tests, alone, with the secrets of its environment",
    (name) => {
      const job = jobs[name] as Job;
      expect(job).toMatchObject({ needs: "test", environment: name });
      expect(job.concurrency).toEqual({ group: `deploy-${name}`, "cancel-in-progress": false });
      expect(job.steps.at(-1)?.run).toBe(`npm run deploy -- --env ${name}`);
      expect(secretsOf(job)).toEqual([job.steps.at(-1)?.env]);
      expect(secretsOf(jobs["test"] as Job)).toEqual([]);
    },
  );
});

describe("a rehearsal of the deployments", () => {
  it("rolls staging out on an account that has nothing yet", async () => {
    const cloudflare = new FakeCloudflare();
    await cloudflare.start();
    const { run = "", env = {} } = jobs["staging"]?.steps.at(-1) ?? {};
    const secrets = Object.entries(env).map(([name, value]) => {
      const secret = /^\$\{\{ secrets\.(\w+) \}\}$/.exec(value)?.[1] ?? "";
      return [name, cloudflare.environment[secret]];
    });
    const redirect = new URL("redirect-workers-dev.ts", import.meta.url).href;
    const outcome = await runCommand("bash", ["-e", "-c", run], {
      env: {
        ...Object.fromEntries(secrets),
        CLOUDFLARE_API_BASE_URL: cloudflare.environment["CLOUDFLARE_API_BASE_URL"],
        FAKE_WORKERS_DEV: cloudflare.origin,
        NODE_OPTIONS: `--import=${redirect}`,
      },
    });
    await cloudflare.stop();
    expect(outcome.status, outcome.stderr).toBe(0);
    expect(outcome.stdout).toContain(
      "Deployed staging: https://store-orders-staging.example.workers.dev",
    );
  });

  it("lets to production only a tag on main", () => {
    const origin = mkdtempSync(join(tmpdir(), "store-orders-origin-"));
    const clone = mkdtempSync(join(tmpdir(), "store-orders-clone-"));
    const git = (cwd: string, ...args: string[]) =>
      execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@example.com", ...args], {
        cwd,
        stdio: "pipe",
      });
    const commit = () => git(origin, "commit", "--quiet", "--allow-empty", "--message=Some");
    git(origin, "init", "--quiet", "--initial-branch=main");
    commit();
    git(origin, "tag", "v1");
    commit();
    git(origin, "checkout", "--quiet", "-b", "mend");
    commit();
    git(origin, "tag", "v2");
    git(clone, "clone", "--quiet", origin, ".");

    const check = jobs["production"]?.steps.find(({ run }) => run?.startsWith("git"))?.run ?? "";
    const passes = (tag: string) => {
      git(clone, "checkout", "--quiet", tag);
      try {
        execFileSync("bash", ["-e", "-c", check], { cwd: clone, stdio: "pipe" });
        return true;
      } catch {
        return false;
      }
    };
    expect([passes("v1"), passes("v2")]).toEqual([true, false]);
    [origin, clone].forEach((folder) => rmSync(folder, { recursive: true }));
  });
});
