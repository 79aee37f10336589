import { createInterface } from "node:readline";
import { type Readable, Writable } from "node:stream";
import { isSecret } from "../rules/keys/secret.ts";

/**
 * Reads a secret from standard input, not from an argument, because shells store arguments.
 *
 * @throws an Error for the operator if the input is not a secret.
 */
export async function readSecret(input: Readable & { readonly isTTY?: boolean }): Promise<string> {
  const secret = (await (input.isTTY ? readHidden(input) : readBeginning(input))).trim();
  if (isSecret(secret)) return secret;
  throw new Error(
    "standard input holds no API key of this service: the key may be mistyped or cut off, or something else stands beside it",
  );
}

async function readBeginning(input: Readable): Promise<string> {
  let text = "";
  for await (const part of input) {
    text += String(part);
    // A secret with white space around it is shorter.
    if (text.length > 1_000) break;
  }
  return text;
}

/** Reads a line from a terminal, which does not show it. */
async function readHidden(input: Readable): Promise<string> {
  process.stderr.write("Paste the key, which is not shown, then press Enter: ");
  const output = new Writable({ write: (_part, _encoding, done) => done() });
  using lines = createInterface({ input, output, terminal: true });
  // A terminal that shows nothing leaves Ctrl+C to this process too.
  lines.once("SIGINT", () => {
    lines.close();
    process.kill(process.pid, "SIGINT");
  });
  const line = await lines[Symbol.asyncIterator]().next();
  process.stderr.write("\n");
  return line.value ?? "";
}
