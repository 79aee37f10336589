const POLL_MS = 250;

/**
 * Ends this process with SIGTERM when the shell in which npm runs it has ended. npm sends signals
 * only to this shell, and some shells then end and leave Node running. Does nothing without npm.
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
