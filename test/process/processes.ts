import { spawnSync } from "node:child_process";

export interface Process {
  readonly pid: number;
  readonly parentPid: number;
  readonly command: string;
}

/** All processes of this machine that still run. */
function runningProcesses(): Process[] {
  const { stdout } = spawnSync("ps", ["-A", "-ww", "-o", "pid=,ppid=,stat=,args="], {
    encoding: "utf8",
    maxBuffer: 2 ** 26,
  });
  return [...stdout.matchAll(/^ *(\d+) +(\d+) +(\S+) +(.*)$/gm)].flatMap(
    ([, pid, parentPid, state, command = ""]) =>
      // A zombie has ended: only its parent has not looked yet.
      state?.startsWith("Z") ? [] : [{ pid: Number(pid), parentPid: Number(parentPid), command }],
  );
}

/** A process with all that it started, directly or not. */
export function processTree(pid: number): Process[] {
  const running = runningProcesses();
  const tree = running.filter((process) => process.pid === pid);
  // Grows while it is walked.
  for (const { pid: parent } of tree) {
    tree.push(...running.filter(({ parentPid }) => parentPid === parent));
  }
  return tree;
}

/** Which of these processes still run, and which others mention one of the words. */
export function leftOver(processes: readonly Process[], words: readonly string[]): Process[] {
  return runningProcesses().filter(
    ({ pid, command }) =>
      processes.some((known) => known.pid === pid && known.command === command) ||
      words.some((word) => command.includes(word)),
  );
}
