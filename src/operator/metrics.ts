import { runProgram } from "./command-line.ts";
import { metricsProgram } from "./metrics/program.ts";

await runProgram(metricsProgram());
