import { DATABASE_NAMES, type DatabaseName } from "../database/database.ts";
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
 * Deploys the service: on the first roll-out the Worker, which creates the databases, and then their
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
    title: "Look for the databases",
    run: async () => void (first = await isFirstRollOut(env)),
    ifItFails: "Nothing was changed.",
  };
  await runSteps(env, [...checks, find]);
  console.log(first ? "First roll-out: deploy, then migrate." : "Migrate, then deploy.");
  await rollOut(env, first, patience);
}

/** @throws an Error if only one of the databases exists. */
async function isFirstRollOut(environment: RemoteEnvironment): Promise<boolean> {
  const missing: DatabaseName[] = [];
  for (const name of DATABASE_NAMES) {
    if (!(await databaseExists({ environment, name }))) missing.push(name);
  }
  if (missing.length !== 1) return missing.length > 0;
  throw new Error(
    `there is no ${missing[0]} database, although the other one exists. Check its database_name in ` +
      "wrangler.toml. If a first roll-out was interrupted, create it: npx wrangler d1 create NAME",
  );
}

async function rollOut(env: RemoteEnvironment, first: boolean, patience: number): Promise<void> {
  const restore: Record<DatabaseName, string> = { orders: "", keys: "" };
  const bookmarks = DATABASE_NAMES.map((name): Step => ({
    title: `Note the state of the ${name} database`,
    run: async () => {
      const bookmark = await findBookmark({ environment: env, name });
      restore[name] =
        `npm run time-travel -- restore --env ${env} --database ${name} --bookmark ${bookmark}`;
      console.log(`The way back to it: ${restore[name]}`);
    },
    ifItFails: "Nothing was changed.",
  }));
  const migrations = DATABASE_NAMES.map((name): Step => ({
    title: `Apply migrations to the ${name} database`,
    run: () => applyMigrations({ environment: env, name }),
    ifItFails: () =>
      first
        ? "The service is deployed, but answers errors until its databases are migrated."
        : "Each migration is applied whole or not at all; those before the failed one stay, and " +
          "the version that is deployed goes on serving. To undo those of this database, and every " +
          `other change to it since: ${restore[name]}`,
  }));
  let addresses: readonly string[] = [];
  const upload: Step = {
    title: first ? "Deploy the Worker and create its databases" : "Deploy the Worker",
    run: async () => void (addresses = await deployWorker(env, await describeCommit())),
    ifItFails: first
      ? "The databases may have been created by now; the next try finds them."
      : "If it was not complete, the version before goes on serving, with the migrated databases.",
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
  await runSteps(
    env,
    first ? [upload, ...migrations, test] : [...bookmarks, ...migrations, upload, test],
  );
  console.log(`Deployed ${env}: ${addresses.join(", ") || "no address of its own, so not tested"}`);
}
