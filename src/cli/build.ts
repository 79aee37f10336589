import { createProgram, runProgram } from "./command-line.ts";
import { buildExpansion } from "./build/expansion.ts";
import { buildSite } from "./build/site.ts";

const HELP = `
wrangler runs this before it serves or deploys, and the tests before they begin.`;

const program = createProgram(
  "npm run build --",
  "Build the reference page, openapi.json and the WebAssembly.",
)
  .addHelpText("after", HELP)
  .allowExcessArguments(false)
  .action(async () => {
    await Promise.all([buildSite(), buildExpansion()]);
  });

await runProgram(program);
