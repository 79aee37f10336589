import { TextDecoder } from "node:util";
import { ArraySplitter } from "./array-splitter.ts";
import { LineSplitter } from "./line-splitter.ts";
import type { SourceElement, Splitter } from "./splitter.ts";

/**
 * Reads the elements of an imported file. The file is a JSON array if its first character other
 * than white space is `[`, else newline-delimited JSON. Skips a byte order mark.
 *
 * @returns the elements in groups. Each group has the elements that one chunk of `bytes` completes.
 * @throws {ElementError} if the text of the file cannot be split into elements; an Error if the
 *   file is not UTF-8.
 */
export async function* readElements(
  bytes: AsyncIterable<Uint8Array>,
): AsyncGenerator<Iterable<SourceElement>> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let splitter: Splitter | undefined;
  let blankLines = 0;
  for await (const part of bytes) {
    const text = decode(decoder, part);
    const start = text.search(/[^ \t\r\n]/);
    if (splitter === undefined) {
      blankLines += text.slice(0, start === -1 ? text.length : start).split("\n").length - 1;
      if (start === -1) continue;
      splitter = text[start] === "[" ? new ArraySplitter() : new LineSplitter(1 + blankLines);
      yield splitter.push(text.slice(start));
    } else {
      yield splitter.push(text);
    }
  }
  decode(decoder);
  if (splitter !== undefined) yield splitter.end();
}

function decode(decoder: TextDecoder, part?: Uint8Array): string {
  try {
    return part === undefined ? decoder.decode() : decoder.decode(part, { stream: true });
  } catch {
    throw new Error("the file is not valid UTF-8");
  }
}
