const POLL_MS = 250;

/**
 * If npm runs this process, sends it SIGTERM as soon as its parent process has ended. npm sends its
 * signals only to the shell that runs the script. Some shells then end and leave Node running.
 */
export function endWithNpm(): void {
  if (process.env["npm_lifecycle_event"] === undefined) return;
  const parent = process.ppid;
  const endOrphan = (): void => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    process.kill(process.pid, "SIGTERM");
  };
  const timer = setInterval(endOrphan, POLL_MS).unref();
}
