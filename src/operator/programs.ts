import type { Command } from "commander";

/** Loads the program of each npm script on demand, because loading all programs takes a second. */
export const PROGRAMS: Readonly<Record<string, () => Promise<Command>>> = {
  build: async () => (await import("./build/program.ts")).buildProgram(),
  deploy: async () => (await import("./deploy/program.ts")).deployProgram(),
  keys: async () => (await import("./keys/program.ts")).keysProgram(),
  orders: async () => (await import("./orders/program.ts")).ordersProgram(),
  start: async () => (await import("./start/program.ts")).startProgram(),
  verify: async () => (await import("./verify/program.ts")).verifyProgram(),
};
