import { spawnSync } from "node:child_process";

export interface Process {
  readonly pid: number;
  readonly parentPid: number;
  readonly command: string;
}

/** Returns the running processes of this machine. */
function runningProcesses(): Process[] {
  const { stdout } = spawnSync("ps", ["-A", "-ww", "-o", "pid=,ppid=,stat=,args="], {
    encoding: "utf8",
    maxBuffer: 2 ** 26,
  });
  return [...stdout.matchAll(/^ *(\d+) +(\d+) +(\S+) +(.*)$/gm)].flatMap(
    ([, pid, parentPid, state, command = ""]) =>
      // A zombie process has ended, but its parent process has not read its exit status.
      state?.startsWith("Z") ? [] : [{ pid: Number(pid), parentPid: Number(parentPid), command }],
  );
}

/** Returns a running process and its descendants. */
export function processTree(pid: number): Process[] {
  const running = runningProcesses();
  const tree = running.filter((process) => process.pid === pid);
  // The loop also visits the processes that it adds to `tree`.
  for (const { pid: parent } of tree) {
    tree.push(...running.filter(({ parentPid }) => parentPid === parent));
  }
  return tree;
}

/**
 * Returns the running processes that are in `processes`, or whose command line contains one of
 * `words`.
 */
export function leftOver(processes: readonly Process[], words: readonly string[]): Process[] {
  return runningProcesses().filter(
    ({ pid, command }) =>
      processes.some((known) => known.pid === pid && known.command === command) ||
      words.some((word) => command.includes(word)),
  );
}
