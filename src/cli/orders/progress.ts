import { SingleBar } from "cli-progress";

/**
 * Passes the bytes of an import on and shows on a terminal how far it is; elsewhere shows nothing.
 *
 * @param totalBytes the length of the file, where it is known.
 */
export async function* showProgress(
  bytes: AsyncIterable<Uint8Array>,
  totalBytes: number | undefined,
): AsyncGenerator<Uint8Array> {
  if (!process.stderr.isTTY) {
    yield* bytes;
    return;
  }
  const bar = new SingleBar({
    stream: process.stderr,
    format:
      totalBytes === undefined
        ? "Reading  {value} MB  {duration_formatted}"
        : "Reading [{bar}] {percentage}%  {value} of {total} MB  ETA {eta_formatted}",
    formatValue: (value, _options, type) =>
      type === "value" || type === "total" ? (value / 1e6).toFixed(1) : String(value),
    hideCursor: true,
  });
  bar.start(totalBytes ?? 0, 0);
  try {
    for await (const part of bytes) {
      bar.increment(part.length);
      yield part;
    }
  } finally {
    bar.stop();
  }
  process.stderr.write("All is read and well-formed; placing the orders ...\n");
}
