import type { RemoteEnvironment } from "../environment.ts";
import { findBookmark } from "../time-travel/bookmarks.ts";
import { describeCommit, localChecks } from "./checks.ts";
import { smokeTest } from "./smoke-test.ts";
import { print, runSteps, type Step } from "./steps.ts";
import { applyMigrations, checkBuild, databaseExists, deployWorker } from "./wrangler-steps.ts";

interface DeployOptions {
  readonly env: RemoteEnvironment;
  /** True stops after the checks. */
  readonly dryRun: boolean;
  /** True deploys the work tree as it is, if it builds. */
  readonly skipChecks: boolean;
  /** Seconds for which the deployed service may fail to answer. */
  readonly patience: number;
}

/**
 * Deploys the service and prints each step. The first roll-out deploys the Worker, which creates
 * the database, and then migrates. Later ones migrate first, so for a moment the version before
 * works with the migrated database.
 *
 * @throws an Error that names the failed step, what was and was not done, and how to continue or go
 *   back.
 */
export async function deploy({ env, dryRun, skipChecks, patience }: DeployOptions): Promise<void> {
  const build: Step = {
    title: `Check the build of ${env}`,
    run: () => checkBuild(env),
    ifItFails: "Nothing was changed.",
  };
  const checks = skipChecks ? [build] : [...localChecks(env), build];
  if (dryRun) {
    await runSteps(env, checks);
    print("Dry run: nothing was changed.");
    return;
  }
  let first = false;
  const find: Step = {
    title: "Look for the database",
    run: async () => void (first = !(await databaseExists(env))),
    ifItFails: "Nothing was changed.",
  };
  await runSteps(env, [...checks, find]);
  print(first ? "First roll-out: deploy, then migrate." : "Migrate, then deploy.");
  await rollOut(env, first, patience);
}

async function rollOut(env: RemoteEnvironment, first: boolean, patience: number): Promise<void> {
  let restore = "";
  const bookmark: Step = {
    title: "Note the state of the database",
    run: async () => {
      restore = `npm run time-travel -- restore --env ${env} --bookmark ${await findBookmark(env)}`;
      print(`The way back to it: ${restore}`);
    },
    ifItFails: "Nothing was changed.",
  };
  const migrate: Step = {
    title: "Apply migrations",
    run: () => applyMigrations(env),
    ifItFails: () =>
      first
        ? "The service is deployed, but answers errors until its database is migrated."
        : "Each migration is applied whole or not at all; those before the failed one stay, and " +
          "the version that is deployed goes on serving. To undo them, and every other change to " +
          `the database since: ${restore}`,
  };
  let addresses: readonly string[] = [];
  const upload: Step = {
    title: first ? "Deploy the Worker and create its database" : "Deploy the Worker",
    run: async () => void (addresses = await deployWorker(env, await describeCommit())),
    ifItFails: first
      ? "The database may have been created by now; the next try finds it."
      : "If it was not complete, the version before goes on serving, with the migrated database.",
  };
  const test: Step = {
    title: "Test the deployed service",
    run: async () => {
      for (const address of addresses) await smokeTest(address, patience);
    },
    ifItFails: first
      ? "The service is deployed and migrated; a new address can take minutes to answer."
      : `To go back to the version before: npx wrangler rollback --env ${env} (migrations stay).`,
  };
  await runSteps(env, first ? [upload, migrate, test] : [bookmark, migrate, upload, test]);
  print(`Deployed ${env}: ${addresses.join(", ") || "no address of its own, so not tested"}`);
}
