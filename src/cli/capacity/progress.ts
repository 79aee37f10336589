import { SingleBar } from "cli-progress";

/** Runs a simulation and shows on a terminal how far it is; elsewhere shows nothing. */
export function showSimulation<T>(simulate: (onProgress: (share: number) => void) => T): T {
  if (!process.stderr.isTTY) return simulate(() => undefined);
  const bar = new SingleBar({
    stream: process.stderr,
    format: "Simulating a day [{bar}] {percentage}%",
    hideCursor: true,
    clearOnComplete: true,
  });
  bar.start(100, 0);
  try {
    return simulate((share) => bar.update(Math.floor(share * 100)));
  } finally {
    bar.stop();
  }
}
