import type { Command } from "commander";
import { createProgram } from "../command-line.ts";
import { buildSite } from "./site.ts";

const HELP = `
wrangler runs this command before it serves or deploys, and the tests run it before the first test.`;

/** Defines the command line of `npm run build`. */
export function buildProgram(): Command {
  return createProgram("npm run build --", "Build the reference page and openapi.json.")
    .addHelpText("after", HELP)
    .allowExcessArguments(false)
    .action(buildSite);
}
