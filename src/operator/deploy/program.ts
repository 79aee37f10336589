import { type Command, Option } from "commander";
import { envOption } from "../arguments.ts";
import { createProgram } from "../command-line.ts";
import { yesOption } from "../confirmation.ts";
import { withInterruption } from "../interruption.ts";
import { PROJECT_ROOT } from "../wrangler.ts";
import type { DeployOptions } from "./deployment.ts";

const LOCATIONS = ["weur", "eeur", "apac", "oc", "wnam", "enam"];

const EXAMPLES = `
Examples:
  $ npm run deploy -- --env staging --location weur   the first roll-out
  $ npm run deploy -- --env staging --dry-run         check, and print the steps
  $ npm run deploy -- --env staging

The command checks everything first, and asks before it creates something. If a trial fails, all traffic
goes back to the version before. Production takes only the commit that staging serves. Log in with \`npx wrangler login\`, or set CLOUDFLARE_API_TOKEN and CLOUDFLARE_ACCOUNT_ID.`;

export function deployProgram(folder = PROJECT_ROOT): Command {
  return createProgram("npm run deploy --", "Deploy the service to an environment, in steps.")
    .addOption(envOption("where to deploy to").makeOptionMandatory())
    .addOption(new Option("--location <region>", "where to create databases").choices(LOCATIONS))
    .option("--dry-run", "check everything, print the steps, and change nothing", false)
    .option("--skip-checks", "deploy the work tree as it is, if it builds", false)
    .addOption(yesOption())
    .addHelpText("after", EXAMPLES)
    .allowExcessArguments(false)
    .action(async (options: Omit<DeployOptions, "folder">) => {
      // Imported on demand, because these modules are slow to load.
      const { deploy } = await import("./deployment.ts");
      await withInterruption("the deployment was complete", (signal) =>
        deploy({ ...options, folder }, signal),
      );
    });
}
