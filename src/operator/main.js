// JavaScript, because a Node that cannot read TypeScript must be able to say that it is too old.
import "./require-node.js";
import module from "node:module";
import { join } from "node:path";

// Caches the compiled modules of the commands and of wrangler, which halves the time to load them.
process.env["NODE_COMPILE_CACHE"] ??= join(import.meta.dirname, "../../node_modules/.cache/node");
module.enableCompileCache();

const { runProgram } = await import("./command-line.ts");
const { PROGRAMS } = await import("./programs.ts");

const [name = "", ...args] = process.argv.slice(2);
const load = PROGRAMS[name];
if (load === undefined) throw new Error(`no such command: ${name}`);
await runProgram(await load(), args);
