import { runProgram } from "./command-line.ts";
import { keysProgram } from "./keys/program.ts";

await runProgram(keysProgram());
