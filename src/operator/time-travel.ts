import { runProgram } from "./command-line.ts";
import { timeTravelProgram } from "./time-travel/program.ts";

await runProgram(timeTravelProgram());
