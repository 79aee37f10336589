import { AsyncLocalStorage } from "node:async_hooks";
import { Readable, Writable } from "node:stream";
import type { Command } from "commander";
import { vi } from "vitest";
import { exitStatus } from "../../src/cli/command-line.ts";
import type { Outcome } from "../deploy/run-command.ts";

/** The standard streams of one command. */
interface Streams {
  readonly stdin: Readable;
  readonly stdout: TextStream;
  readonly stderr: TextStream;
}

/** Keeps what is written to it. */
class TextStream extends Writable {
  readonly #parts: Buffer[] = [];

  override _write(part: Buffer, _encoding: string, done: () => void): void {
    this.#parts.push(part);
    done();
  }

  get text(): string {
    return Buffer.concat(this.#parts).toString();
  }
}

/** Several commands may run at the same time, each with streams of its own. */
const streams = new AsyncLocalStorage<Streams>();

/**
 * Runs a command in this process. Starting Node for it would take a second of the processor.
 *
 * @param input what the command reads on its standard input.
 */
export async function runInProcess(
  program: Command,
  args: readonly string[],
  input = "",
): Promise<Outcome> {
  replaceStreams();
  const stdout = new TextStream();
  const stderr = new TextStream();
  const own = { stdin: Readable.from(input === "" ? [] : [Buffer.from(input)]), stdout, stderr };
  const status = await streams.run(own, () => exitStatus(program, args));
  return { status, stdout: stdout.text, stderr: stderr.text };
}

/** Gives each command its own streams, and everybody else those of the process. */
function replaceStreams(): void {
  for (const name of ["stdin", "stdout", "stderr"] as const) {
    if (vi.isMockFunction(Object.getOwnPropertyDescriptor(process, name)?.get)) continue;
    const original = process[name];
    vi.spyOn(process, name, "get").mockImplementation(
      () => (streams.getStore()?.[name] ?? original) as never,
    );
  }
  if (vi.isMockFunction(console.log)) return;
  const log = console.log.bind(console);
  vi.spyOn(console, "log").mockImplementation((...values: unknown[]) => {
    const own = streams.getStore();
    if (own === undefined) log(...values);
    else own.stdout.write(`${values.join(" ")}\n`);
  });
}
