import type { RemoteEnvironment } from "../environment.ts";
import { findBookmark } from "../time-travel/bookmarks.ts";
import { describeCommit, localChecks } from "./checks.ts";
import { smokeTest } from "./smoke-test.ts";
import { runSteps, type Step } from "./steps.ts";
import { applyMigrations, checkBuild, databaseExists, deployWorker } from "./wrangler-steps.ts";

export interface DeployOptions {
  readonly env: RemoteEnvironment;
  /** Whether to stop after the checks. */
  readonly dryRun: boolean;
  /** Whether to deploy whatever stands in the work tree, if only it builds. */
  readonly skipChecks: boolean;
  /** For how many seconds the deployed service may fail to answer. */
  readonly patience: number;
}

/**
 * Deploys the service: on the first roll-out the Worker, which creates the database, and then its
 * migrations; on later ones the migrations first. Says on stdout what it does.
 *
 * @throws an Error that tells which step failed, what was and was not done, and the way on or back.
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
    console.log("Dry run: nothing was changed.");
    return;
  }
  let first = false;
  const find: Step = {
    title: "Look for the database",
    run: async () => void (first = !(await databaseExists(env))),
    ifItFails: "Nothing was changed.",
  };
  await runSteps(env, [...checks, find]);
  console.log(first ? "First roll-out: deploy, then migrate." : "Migrate, then deploy.");
  await rollOut(env, first, patience);
}

async function rollOut(env: RemoteEnvironment, first: boolean, patience: number): Promise<void> {
  let restore = "";
  const bookmark: Step = {
    title: "Note the state of the database",
    run: async () => {
      restore = `npm run time-travel -- restore --env ${env} --bookmark ${await findBookmark(env)}`;
      console.log(`The way back to it: ${restore}`);
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
  console.log(`Deployed ${env}: ${addresses.join(", ") || "no address of its own, so not tested"}`);
}
