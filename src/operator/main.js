// JavaScript, because a Node that cannot read TypeScript must be able to say that it is too old.
import "./require-node.js";
import http from "node:http";
import module from "node:module";
import { join } from "node:path";

// Caches the compiled modules of the commands and of wrangler, which halves the time to load them.
process.env["NODE_COMPILE_CACHE"] ??= join(import.meta.dirname, "../../node_modules/.cache/node");
module.enableCompileCache();

// The proxies of HTTPS_PROXY and HTTP_PROXY, which wrangler uses too, but not for this machine.
const { no_proxy: lower, NO_PROXY: listed = lower } = process.env;
const direct = [listed, "localhost", "127.0.0.1", "[::1]"].filter(Boolean).join();
http.setGlobalProxyFromEnv({ ...process.env, no_proxy: direct, NO_PROXY: direct });

const { runProgram } = await import("./command-line.ts");
const [name, ...args] = process.argv.slice(2);
// Loads only the program of this npm script, because loading all takes a second.
const { [`${name}Program`]: createProgram } = await import(`./${name}/program.ts`);
await runProgram(createProgram(), args);
