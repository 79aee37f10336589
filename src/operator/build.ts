import { createProgram, runProgram } from "./command-line.ts";
import { buildAll } from "./build/all.ts";

const HELP = `
wrangler runs this before it serves or deploys, and the tests before they begin.`;

const program = createProgram(
  "npm run build --",
  "Build the reference page, openapi.json and the WebAssembly.",
)
  .addHelpText("after", HELP)
  .allowExcessArguments(false)
  .action(buildAll);

await runProgram(program);
