import { enableCompileCache } from "node:module";
import { join } from "node:path";

// Caches the compiled modules of the commands, which halves the time to load them.
enableCompileCache(
  join(import.meta.dirname, "..", "..", "node_modules", ".cache", "commands-compiled"),
);

const { runProgram } = await import("./command-line.ts");
const { PROGRAMS } = await import("./programs.ts");

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
