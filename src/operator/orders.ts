import { runProgram } from "./command-line.ts";
import { ordersProgram } from "./orders/program.ts";

await runProgram(ordersProgram());
