import { runProgram } from "./command-line.ts";
import { endWithNpm } from "./start/end-with-npm.ts";
import { startProgram } from "./start/program.ts";

endWithNpm();
await runProgram(startProgram());
