import { type Command, InvalidArgumentError, Option } from "commander";
import { envOption } from "../arguments.ts";
import { createProgram, UsageError } from "../command-line.ts";
import { withInterruption } from "../interruption.ts";
import type { DeployOptions } from "./steps.ts";

/** The location hints that D1 offers for the primary database. */
const LOCATIONS = ["weur", "eeur", "apac", "oc", "wnam", "enam"];
const JURISDICTIONS = ["eu", "fedramp", "us"];

const EXAMPLES = `
Examples:
  $ npm run deploy -- --env staging --create --location weur   the first roll-out
  $ npm run deploy -- --env staging --dry-run                  check, and print the steps
  $ npm run deploy -- --env staging                            deploy in steps
  $ npm run deploy -- --env production --domain orders.shop.example

The command checks everything before it changes anything. It migrates the databases, uploads a
version without traffic, tries the version, and then sends all traffic to it. If a trial fails, all
traffic goes back to the version before. Production takes only the commit that staging serves. Log
in with \`npx wrangler login\`, or set CLOUDFLARE_API_TOKEN and CLOUDFLARE_ACCOUNT_ID.`;

/** Defines the command line of `npm run deploy`. */
export function deployProgram(): Command {
  return createProgram("npm run deploy --", "Deploy the service to an environment, in steps.")
    .addOption(envOption("where to deploy to").makeOptionMandatory())
    .option("--create", "first roll-out: create the databases and the Worker", false)
    .addOption(
      new Option(
        "--location <region>",
        "with --create: the region in which to create the databases",
      ).choices(LOCATIONS),
    )
    .addOption(
      new Option(
        "--jurisdiction <name>",
        "with --create: the jurisdiction that the databases never leave",
      )
        .choices(JURISDICTIONS)
        .conflicts("location"),
    )
    .option("--domain <name>", "a hostname of your zone that nothing uses yet", parseHostname)
    .option("--dry-run", "check everything, print the steps, and change nothing", false)
    .option("--skip-checks", "deploy the work tree as it is, if it builds", false)
    .option(
      "--patience <seconds>",
      "how long to wait until a new version responds",
      parseSeconds,
      60,
    )
    .addHelpText("after", EXAMPLES)
    .allowExcessArguments(false)
    .action(async (options: DeployOptions) => {
      const { create, location, jurisdiction } = options;
      const isPlaced = (location ?? jurisdiction) !== undefined;
      // The place of the databases has no default, because it cannot be changed later.
      if (create && !isPlaced) {
        throw new UsageError(
          "say where the databases shall live: --location REGION or --jurisdiction NAME",
        );
      }
      if (isPlaced && !create) {
        throw new UsageError(
          "--location and --jurisdiction go with --create: an existing database stays where it is",
        );
      }
      // Imported on demand, because these modules are slow to load.
      const { deploy } = await import("./deployment.ts");
      await withInterruption("the deployment was complete", (signal) => deploy(options, signal));
    });
}

function parseSeconds(text: string): number {
  if (!/^\d{1,4}$/.test(text)) throw new InvalidArgumentError("expected whole seconds up to 9999");
  return Number(text);
}

function parseHostname(text: string): string {
  const label = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?";
  if (new RegExp(`^(${label}\\.)+${label}$`).test(text)) return text;
  throw new InvalidArgumentError(
    "expected a hostname in small letters such as orders.shop.example",
  );
}
