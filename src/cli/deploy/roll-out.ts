import type { RemoteEnvironment } from "../environment.ts";
import { smokeTest } from "./smoke-test.ts";
import { applyMigrations, checkBuild, databaseExists, deployWorker } from "./wrangler-steps.ts";

export interface DeployOptions {
  readonly env: RemoteEnvironment;
  /** Whether to stop after the build. */
  readonly dryRun: boolean;
  /** For how many seconds the deployed service may fail to answer. */
  readonly patience: number;
}

interface Step {
  readonly title: string;
  readonly run: () => Promise<void>;
  /** What the operator needs to know if this step fails. */
  readonly ifItFails: string;
}

/**
 * Deploys the service: on the first roll-out the Worker, which creates the database, and then its
 * migrations; on later ones the migrations first. Says on stdout what it does.
 *
 * @throws an Error that tells which step failed, what was and was not done, and the way on or back.
 */
export async function deploy({ env, dryRun, patience }: DeployOptions): Promise<void> {
  const build: Step = {
    title: `Check the build of ${env}`,
    run: () => checkBuild(env),
    ifItFails: "Nothing was changed.",
  };
  if (dryRun) {
    await runSteps(env, [build]);
    console.log("Dry run: nothing was changed.");
    return;
  }
  let first = false;
  const find: Step = {
    title: "Look for the database",
    run: async () => void (first = !(await databaseExists(env))),
    ifItFails: "Nothing was changed.",
  };
  await runSteps(env, [build, find]);
  console.log(first ? "First roll-out: deploy, then migrate." : "Migrate, then deploy.");
  await rollOut(env, first, patience);
}

async function rollOut(env: RemoteEnvironment, first: boolean, patience: number): Promise<void> {
  const startedAt = new Date().toISOString();
  let addresses: readonly string[] = [];
  const upload: Step = {
    title: first ? "Deploy the Worker and create its database" : "Deploy the Worker",
    run: async () => void (addresses = await deployWorker(env)),
    ifItFails: first
      ? "The database may have been created by now; the next try finds it."
      : "If it was not complete, the version before goes on serving, with the migrated database.",
  };
  const migrate: Step = {
    title: "Apply migrations",
    run: () => applyMigrations(env),
    ifItFails: first
      ? "The service is deployed, but answers errors until its database is migrated."
      : "Each migration is applied whole or not at all; those before the failed one stay. " +
        "To undo them, and every other change to the database since: " +
        `npx wrangler d1 time-travel restore DB --env ${env} --timestamp ${startedAt}`,
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
  await runSteps(env, first ? [upload, migrate, test] : [migrate, upload, test]);
  console.log(`Deployed ${env}: ${addresses.join(", ") || "no address of its own, so not tested"}`);
}

async function runSteps(env: RemoteEnvironment, steps: readonly Step[]): Promise<void> {
  for (const [index, step] of steps.entries()) {
    console.log(`${step.title} ...`);
    try {
      await step.run();
    } catch (error) {
      const undone = steps.slice(index + 1).map(({ title }) => title);
      const lines = [`"${step.title}" failed: ${(error as Error).message}`, step.ifItFails];
      if (undone.length > 0) lines.push(`Not done: ${undone.join("; ")}.`);
      lines.push(`To go on: mend the cause and run \`npm run deploy -- --env ${env}\` again.`);
      throw new Error(lines.join("\n"), { cause: error });
    }
  }
}
