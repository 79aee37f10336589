import { Command, InvalidArgumentError, Option } from "commander";
import { REMOTE_ENVIRONMENTS } from "./environment.ts";
import type { RemoteEnvironment } from "./environment.ts";
import {
  applyMigrations,
  checkBuild,
  databaseExists,
  deployWorker,
  smokeTest,
} from "./deploy-steps.ts";

const EXIT_FAILED = 1;
const EXIT_WRONG_USAGE = 2;

const EXAMPLES = `
Examples:
  $ npm run deploy -- --env staging --dry-run   build only: needs no account
  $ npm run deploy -- --env staging             migrate, deploy, test
  $ npx wrangler rollback --env staging         back to the version before

The first roll-out deploys, which creates the database, and then migrates it; later ones migrate
first. Log in with \`npx wrangler login\`, or set CLOUDFLARE_API_TOKEN and CLOUDFLARE_ACCOUNT_ID.`;

interface Options {
  readonly env: RemoteEnvironment;
  readonly dryRun: boolean;
  readonly patience: number;
}

interface Step {
  readonly title: string;
  readonly run: () => Promise<void>;
  /** What the operator needs to know if this step fails. */
  readonly ifItFails: string;
}

async function deploy({ env, dryRun, patience }: Options): Promise<void> {
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
      : "The version before goes on serving, now with the migrated database.",
  };
  const migrate: Step = {
    title: "Apply migrations",
    run: () => applyMigrations(env),
    ifItFails: first
      ? "The service is deployed, but answers errors until its database is migrated."
      : "Each migration is applied whole or not at all; those before the failed one stay. " +
        `To undo them: npx wrangler d1 time-travel restore DB --env ${env} --timestamp ${startedAt}`,
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
  console.log(`Deployed ${env}: ${addresses.join(", ")}`);
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

function seconds(text: string): number {
  if (!/^\d{1,4}$/.test(text)) throw new InvalidArgumentError("expected whole seconds up to 9999");
  return Number(text);
}

const command = new Command("npm run deploy --")
  .description("Deploy the service to an environment, with its database migrated.")
  .addOption(
    new Option("--env <environment>", "where to deploy to")
      .choices(REMOTE_ENVIRONMENTS)
      .makeOptionMandatory(),
  )
  .option("--dry-run", "only check that the Worker builds", false)
  .option("--patience <seconds>", "how long the deployed service may take to answer", seconds, 60)
  .addHelpText("after", EXAMPLES)
  .allowExcessArguments(false)
  .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : EXIT_WRONG_USAGE))
  .action(async (options: Options) => {
    try {
      await deploy(options);
    } catch (error) {
      console.error(`error: ${(error as Error).message}`);
      process.exitCode = EXIT_FAILED;
    }
  });

await command.parseAsync();
