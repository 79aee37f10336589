import { isMainThread } from "node:worker_threads";

// Loaded into wrangler before its own code. Standard input is a pipe that `start` holds open; it
// closes however `start` ends, even by SIGKILL, and then the whole process group has to go, as
// workerd would serve on without wrangler. Worker threads have another standard input.
if (isMainThread) {
  const endGroup = (): void => void process.kill(0, "SIGKILL");
  process.stdin.once("end", endGroup).once("error", endGroup).resume().unref();
}
