import { runProgram } from "./command-line.ts";
import { startProgram } from "./start/program.ts";

await runProgram(startProgram());
