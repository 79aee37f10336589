const POLL_MS = 250;

/**
 * Ends this process, as SIGTERM does, once its parent has ended, if npm runs it. npm signals only
 * the shell of a script. A shell that has not replaced itself with Node ends and leaves Node
 * running.
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
