import type { Readable } from "node:stream";
import { isSecret } from "../rules/keys/secret.ts";

/**
 * Reads a secret from standard input, not from an argument, because shells store arguments.
 *
 * @throws an Error for the operator if the input is not a secret.
 */
export async function readSecret(input: Readable & { readonly isTTY?: boolean }): Promise<string> {
  if (input.isTTY) process.stderr.write("Paste the key, then press Enter and Ctrl+D.\n");
  let text = "";
  for await (const part of input) {
    text += String(part);
    // A secret with white space around it is shorter.
    if (text.length > 1_000) break;
  }
  const secret = text.trim();
  if (isSecret(secret)) return secret;
  throw new Error(
    "standard input holds no API key of this service: the key may be mistyped or cut off, or something else stands beside it",
  );
}
