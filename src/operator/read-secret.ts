import { createInterface } from "node:readline";
import { type Readable, Writable } from "node:stream";
import { isSecret } from "../rules/keys/secret.ts";

/**
 * Reads a secret from standard input, not from an argument, because shells store arguments.
 *
 * @throws an Error for the operator if the input is not a secret.
 */
export async function readSecret(input: Readable & { readonly isTTY?: boolean }): Promise<string> {
  using lines = input.isTTY ? hiddenLines(input) : undefined;
  let text = "";
  for await (const part of lines ?? input) {
    text += String(part);
    // A secret with white space around it is shorter.
    if (lines !== undefined || text.length > 1_000) break;
  }
  if (lines !== undefined) process.stderr.write("\n");
  if (isSecret(text.trim())) return text.trim();
  throw new Error(
    "standard input holds no API key of this service: the key may be mistyped or cut off, or something else stands beside it",
  );
}

/** Reads lines of a terminal, which does not show them. */
function hiddenLines(input: Readable) {
  process.stderr.write("Paste the key, which is not shown, then press Enter: ");
  const output = new Writable({ write: (_part, _encoding, done) => done() });
  const lines = createInterface({ input, output, terminal: true });
  // A terminal that shows nothing leaves Ctrl+C to this process too.
  return lines.once("SIGINT", () => {
    lines.close();
    process.kill(process.pid, "SIGINT");
  });
}
