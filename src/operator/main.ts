import type { Command } from "commander";
import { runProgram } from "./command-line.ts";

/** Loads the program of each npm script on demand, because loading all programs takes a second. */
const PROGRAMS: Readonly<Record<string, () => Promise<Command>>> = {
  build: async () => (await import("./build/program.ts")).buildProgram(),
  capacity: async () => (await import("./capacity/program.ts")).capacityProgram(),
  deploy: async () => (await import("./deploy/program.ts")).deployProgram(),
  keys: async () => (await import("./keys/program.ts")).keysProgram(),
  metrics: async () => (await import("./metrics/program.ts")).metricsProgram(),
  orders: async () => (await import("./orders/program.ts")).ordersProgram(),
  start: async () => (await import("./start/program.ts")).startProgram(),
  verify: async () => (await import("./verify/program.ts")).verifyProgram(),
  "time-travel": async () => (await import("./time-travel/program.ts")).timeTravelProgram(),
};

const [name = "", ...args] = process.argv.slice(2);
const load = PROGRAMS[name];
if (load === undefined) {
  process.stderr.write(
    `error: no such command; node src/operator/main.ts runs one of ${Object.keys(PROGRAMS).join(", ")}\n`,
  );
  process.exitCode = 2;
} else {
  await runProgram(await load(), args);
}
