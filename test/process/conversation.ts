import { connect } from "node:net";

/** A response counts as complete if no further byte arrives for this many milliseconds. */
const SILENCE_MS = 250;
/**
 * How long to wait for the first byte of a response, in milliseconds. If the sent bytes are only
 * the beginning of a request, the server never responds.
 */
const PATIENCE_MS = 1_000;
const TIMEOUT_MS = 5_000;

/**
 * Sends bytes to a port of this machine and reads the response.
 *
 * @param patienceMs how long to wait for the first byte of the response, in milliseconds.
 * @returns all received bytes, decoded as Latin-1.
 */
export function converse(
  port: number,
  bytes: Buffer,
  patienceMs: number = PATIENCE_MS,
): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1");
    let received = "";
    const timer = setTimeout(() => {
      socket.destroy();
      reject(new Error("The conversation does not end."));
    }, TIMEOUT_MS);
    const end = (): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve(received);
    };
    socket.setTimeout(patienceMs, end);
    socket.on("data", (data) => {
      received += data.toString("latin1");
      socket.setTimeout(SILENCE_MS);
    });
    // The server may close the connection before it has read all bytes.
    socket.on("error", end).on("close", end);
    socket.write(bytes);
  });
}

/** An HTTP response, parsed from the received bytes. */
export interface WireAnswer {
  readonly status: number;
  /** All values of each header, by the header's name in lower case. */
  readonly headers: ReadonlyMap<string, readonly string[]>;
  readonly body: string;
}

/** Parses the first HTTP response in the received text; returns `null` if there is none. */
export function firstAnswer(received: string): WireAnswer | null {
  const match =
    /^HTTP\/1\.1 (?<status>\d{3}) [^\r\n]*\r\n(?<head>[^]*?)\r\n\r\n(?<rest>[^]*)$/.exec(
      received.replace(/^HTTP\/1\.1 100 Continue\r\n\r\n/, ""),
    );
  if (match?.groups === undefined) return null;
  const { status = "", head = "", rest = "" } = match.groups;
  const headers = new Map<string, string[]>();
  for (const line of head.split("\r\n")) {
    const colon = line.indexOf(":");
    const name = line.slice(0, colon).toLowerCase();
    headers.set(name, [...(headers.get(name) ?? []), line.slice(colon + 1).trim()]);
  }
  const length = headers.get("content-length")?.[0];
  return {
    status: Number(status),
    headers,
    body: length === undefined ? unchunked(rest) : rest.slice(0, Number(length)),
  };
}

function unchunked(text: string): string {
  const size = /^(?<hex>[0-9a-f]+)\r\n/i.exec(text);
  const length = Number.parseInt(size?.groups?.["hex"] ?? "0", 16);
  if (size === null || length === 0) return "";
  const from = size[0].length;
  return text.slice(from, from + length) + unchunked(text.slice(from + length + 2));
}
