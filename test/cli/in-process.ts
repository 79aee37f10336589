import type { Command } from "commander";
import { vi } from "vitest";
import { exitStatus } from "../../src/cli/command-line.ts";
import type { Outcome } from "../deploy/run-command.ts";

/** Runs a command in this process: for tables, each line of which would cost a second elsewhere. */
export async function runInProcess(program: Command, args: readonly string[]): Promise<Outcome> {
  const written = { stdout: "", stderr: "" };
  const spies = (["stdout", "stderr"] as const).map((stream) =>
    vi.spyOn(process[stream], "write").mockImplementation((text) => {
      written[stream] += String(text);
      return true;
    }),
  );
  try {
    return { status: await exitStatus(program, args), ...written };
  } finally {
    spies.forEach((spy) => spy.mockRestore());
  }
}
