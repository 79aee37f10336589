import { spawn } from "node:child_process";
import { text } from "node:stream/consumers";

export interface Outcome {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export async function runCommand(
  command: string,
  args: readonly string[],
  { env }: { readonly env: NodeJS.ProcessEnv },
): Promise<Outcome> {
  const child = spawn(command, args, {
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const closed = new Promise<number | null>((resolve) => child.once("close", resolve));
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  return { status: await closed, stdout, stderr };
}

export function withoutProgress({ stderr }: Outcome): string {
  return stderr.replace(/^[A-Z][a-z ]+:(?: [\d.,]+(?: of [\d.,]+)? \w+,)? \d+ s\n/gm, "");
}
