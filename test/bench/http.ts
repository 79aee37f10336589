import { type IncomingMessage, request as startRequest } from "node:http";
import { connect } from "node:net";

/** A request that the benchmark sends. */
export interface Request {
  readonly url: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The times of a response, in milliseconds since the request was sent. */
export interface AnswerTimes {
  /** When the first byte of the response's body arrived. */
  readonly firstByteMs: number;
  /** When the last byte of the response's body arrived. */
  readonly totalMs: number;
}

const HEAD_END = "\r\n\r\n";
/**
 * The last bytes of a response with a complete list of orders, in chunked encoding: the closing
 * bracket and the empty chunk. An incomplete list may also end with an empty chunk, but without the
 * bracket.
 */
const LIST_END = "]\r\n0\r\n\r\n";
const READ_BYTES = 65_536;

/**
 * Requests a list, reads the whole response and measures its times. All reads share one buffer.
 * Node's HTTP client would allocate much memory for a long body, and its garbage collection would
 * slow down the server on the same machine.
 */
export function timeAnswer({ url, headers = {} }: Request): Promise<AnswerTimes> {
  const { host, hostname, port, pathname, search } = new URL(url);
  const fields = { Host: host, Connection: "close", ...headers };
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}`);
  return new Promise((resolve, reject) => {
    const startMs = performance.now();
    const times = { firstByteMs: 0, totalMs: 0 };
    let bytes = 0;
    let head = "";
    let headBytes = 0;
    let end = "";
    const read = (count: number, buffer: Uint8Array): boolean => {
      const data = Buffer.from(buffer.buffer, 0, count);
      bytes += count;
      if (headBytes === 0) {
        head += data.toString("latin1");
        if (head.includes(HEAD_END)) headBytes = head.indexOf(HEAD_END) + HEAD_END.length;
      }
      if (headBytes === 0 || bytes === headBytes) return true;
      times.totalMs = performance.now() - startMs;
      times.firstByteMs ||= times.totalMs;
      const last = data.toString("latin1", Math.max(0, count - LIST_END.length));
      end = (end + last).slice(-LIST_END.length);
      return true;
    };
    const socket = connect({
      host: hostname,
      port: Number(port),
      onread: { buffer: Buffer.alloc(READ_BYTES), callback: read },
    });
    socket.once("error", reject).once("close", () => {
      const length = /^content-length: (?<bytes>\d+)/im.exec(head)?.groups?.["bytes"];
      const isWhole =
        length === undefined ? end === LIST_END : bytes - headBytes === Number(length);
      if (isWhole && head.startsWith("HTTP/1.1 200 ")) resolve(times);
      else
        reject(new Error(`Not a complete answer with 200: ${head.slice(0, head.indexOf("\r"))}.`));
    });
    socket.write(`GET ${pathname}${search} HTTP/1.1\r\n${lines.join("\r\n")}${HEAD_END}`);
  });
}

/** Sends a request and returns the body of the response. */
export async function answerBody(request: Request): Promise<Buffer> {
  const data: Buffer[] = [];
  await readAnswer(await send(request), (piece) => data.push(piece));
  return Buffer.concat(data);
}

/** Sends a request and returns the status and headers of the response. Discards the body. */
export async function answerHeaders(request: Request): Promise<IncomingMessage> {
  const response = await send(request);
  await readAnswer(response);
  return response;
}

function send({ url, method = "GET", headers = {} }: Request): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    startRequest(url, { agent: false, method, headers }, resolve).on("error", reject).end();
  });
}

function readAnswer(
  response: IncomingMessage,
  onData: (data: Buffer) => void = () => {},
): Promise<void> {
  return new Promise((resolve, reject) => {
    response.on("data", onData).once("end", resolve).on("error", reject);
  });
}
