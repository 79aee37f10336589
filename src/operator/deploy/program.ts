import { type Command, InvalidArgumentError, Option } from "commander";
import { createProgram } from "../command-line.ts";
import { REMOTE_ENVIRONMENTS } from "../environment.ts";
import { deploy } from "./roll-out.ts";

const EXAMPLES = `
Examples:
  $ npm run deploy -- --env staging --dry-run   check only: needs no account
  $ npm run deploy -- --env staging             check, migrate, deploy, test
  $ npx wrangler rollback --env staging         back to the version before

The command checks types and build, and for production that everything is committed. The tests are
left to CI. The first roll-out deploys, which creates the databases, and then migrates them. Later
ones print the bookmark of each database's state, then migrate, then deploy. Log in with
\`npx wrangler login\`, or set CLOUDFLARE_API_TOKEN and CLOUDFLARE_ACCOUNT_ID.`;

function parseSeconds(text: string): number {
  if (!/^\d{1,4}$/.test(text)) throw new InvalidArgumentError("expected whole seconds up to 9999");
  return Number(text);
}

/** The command line of `npm run deploy`. */
export function deployProgram(): Command {
  return createProgram(
    "npm run deploy --",
    "Deploy the service to an environment, with its databases migrated.",
  )
    .addOption(
      new Option("--env <environment>", "where to deploy to")
        .choices(REMOTE_ENVIRONMENTS)
        .makeOptionMandatory(),
    )
    .option("--dry-run", "only check, and change nothing", false)
    .option("--skip-checks", "deploy the work tree as it is, if it builds", false)
    .option("--patience <seconds>", "time for the deployed service to answer", parseSeconds, 60)
    .addHelpText("after", EXAMPLES)
    .allowExcessArguments(false)
    .action(deploy);
}
