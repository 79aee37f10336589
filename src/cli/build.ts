import { createProgram, runProgram } from "./command-line.ts";
import { buildSite } from "./build/site.ts";

const HELP = `
wrangler runs this before it serves or deploys, and the tests before they begin.`;

const program = createProgram(
  "npm run build --",
  "Build the reference page and openapi.json.",
)
  .addHelpText("after", HELP)
  .allowExcessArguments(false)
  .action(buildSite);

await runProgram(program);
