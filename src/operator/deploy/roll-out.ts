import { DATABASE_NAMES, type DatabaseName } from "../database/database.ts";
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
 * the databases, and then migrates. Later ones migrate first, so for a moment the version before
 * works with the migrated databases.
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
    title: "Look for the databases",
    run: async () => void (first = await isFirstRollOut(env)),
    ifItFails: "Nothing was changed.",
  };
  await runSteps(env, [...checks, find]);
  print(first ? "First roll-out: deploy, then migrate." : "Migrate, then deploy.");
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
      print(`The way back to it: ${restore[name]}`);
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
  print(`Deployed ${env}: ${addresses.join(", ") || "no address of its own, so not tested"}`);
}
