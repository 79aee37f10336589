import { capacityProgram } from "./capacity/program.ts";
import { runProgram } from "./command-line.ts";

await runProgram(capacityProgram());
