import type { ChildProcess } from "node:child_process";
import { subscribe } from "node:diagnostics_channel";
import { runProgram } from "../../src/operator/command-line.ts";
import { START_PATIENCE } from "../../src/operator/start/dev-server.ts";
import { startProgram } from "../../src/operator/start/program.ts";

// `npm start` whose first workerd stops as soon as it runs. After three notices that the start takes
// long, workerd gets the signal that is the first argument.
const [signal = "", ...args] = process.argv.slice(2);
START_PATIENCE.noticeMs = 100;
let workerd: ChildProcess | undefined;
subscribe("child_process", (message) => {
  const { process: child } = message as { readonly process: ChildProcess };
  child.once("spawn", () => {
    if (workerd !== undefined || !child.spawnfile.endsWith("workerd.sh")) return;
    workerd = child;
    process.kill(child.pid!, "SIGSTOP");
  });
});
const write = process.stderr.write.bind(process.stderr);
let notices = 0;
process.stderr.write = (text: string | Uint8Array) => {
  if (workerd !== undefined && String(text).startsWith("Still starting: ")) {
    notices += 1;
    if (notices === 3) process.kill(workerd.pid!, signal);
  }
  return write(text);
};
await runProgram(startProgram(), args);
