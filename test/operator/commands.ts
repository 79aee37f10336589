import { AsyncLocalStorage } from "node:async_hooks";
import { execFile } from "node:child_process";
import { Readable, Writable } from "node:stream";
import type { Command } from "commander";
import { expect } from "vitest";
import { exitStatus } from "../../src/operator/command-line.ts";

export type Outcome = Readonly<{ status: number | null; stdout: string; stderr: string }>;

/** Returns a stream, and a function that returns what was written to it. */
function textStream() {
  const parts: Buffer[] = [];
  const write = (part: Buffer, _: string, done: () => void) => (parts.push(part), done());
  return [new Writable({ write }), () => Buffer.concat(parts).toString()] as const;
}

/** The streams of the current command. Several commands may run at the same time. */
const streams = new AsyncLocalStorage<Record<"stdin" | "stdout" | "stderr", Readable | Writable>>();

// Code outside a command still gets the streams of the process.
for (const name of ["stdin", "stdout", "stderr"] as const) {
  const original = process[name];
  const get = () => streams.getStore()?.[name] ?? original;
  Object.defineProperty(process, name, { configurable: true, get });
}

/** Returns the program of an npm script, as `main.js` finds it. */
export async function programOf(script: string): Promise<Command> {
  return (await import(`../../src/operator/${script}/program.ts`))[`${script}Program`]();
}

/** Runs a command in this process, because starting Node takes a second of processor time. */
export async function runInProcess(
  program: Command,
  args: readonly string[],
  input: string | Readable = "",
  { isTerminal = false, columns = undefined as number | undefined } = {},
): Promise<Outcome> {
  const [stdout, readStdout] = textStream();
  const [stderr, readStderr] = textStream();
  const stdin =
    typeof input === "string" ? Readable.from(input === "" ? [] : [Buffer.from(input)]) : input;
  Object.assign(stdout, { columns });
  for (const stream of [stdin, stderr]) Object.assign(stream, { isTTY: isTerminal });
  const status = await streams.run({ stdin, stdout, stderr }, () => exitStatus(program, args));
  return { status, stdout: readStdout(), stderr: readStderr() };
}

/** The outcome of a command that prints this error message, and no data. */
export function failure(message: string, status = 1): Outcome {
  return { status, stdout: "", stderr: expect.stringContaining(message) };
}

/** Runs a command in a process of its own. */
export function runCommand(
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<Outcome> {
  return new Promise((resolve) => {
    const options = { env: { ...process.env, ...env }, maxBuffer: Infinity };
    const child = execFile(command, args, options, (_, stdout, stderr) =>
      resolve({ status: child.exitCode, stdout, stderr }),
    );
    child.stdin!.end();
  });
}

export function withoutProgress({ stderr }: Outcome): string {
  return stderr.replace(/^[A-Z][a-z ]+:(?: [\d.,]+(?: of [\d.,]+)? \w+,)? \d+ s\n/gm, "");
}
