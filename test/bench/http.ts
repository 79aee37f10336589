import { Agent, type IncomingMessage, request as startRequest } from "node:http";

/** Simultaneous requests where it is the rate that is measured. */
const CONNECTIONS = 32;

/** A request that is sent again and again. */
export interface Request {
  readonly url: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** How long an answer took, in milliseconds from the request. */
export interface AnswerTimes {
  /** Until the first byte of the body. */
  readonly firstByteMs: number;
  /** Until the last byte of the body. */
  readonly totalMs: number;
  readonly bytes: number;
}

/** Sends a request and reads its answer to the end. */
export async function timeAnswer(
  request: Request,
  onData: (data: Buffer) => void = () => {},
): Promise<AnswerTimes> {
  const startMs = performance.now();
  let firstByteMs = 0;
  let bytes = 0;
  const response = await send(request, false);
  if (response.statusCode !== 200) throw new Error(`An answer of ${response.statusCode}.`);
  await readAnswer(response, (data) => {
    if (bytes === 0) firstByteMs = performance.now() - startMs;
    bytes += data.length;
    onData(data);
  });
  return { firstByteMs, totalMs: performance.now() - startMs, bytes };
}

/** The status and headers of an answer, whose body is read and dropped. */
export async function answerHeaders(request: Request): Promise<IncomingMessage> {
  const response = await send(request, false);
  await readAnswer(response);
  return response;
}

/** Sends one request after another on 32 connections. @returns requests per second. */
export async function requestRate(
  request: Request,
  expectedStatus: number,
  count: number,
): Promise<number> {
  // Connections of its own, because Workers drop those that are idle for a while.
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
  let left = count;
  const sendUntilNoneIsLeft = async () => {
    while (left > 0) {
      left -= 1;
      const response = await send(request, agent);
      await readAnswer(response);
      if (response.statusCode !== expectedStatus) {
        throw new Error(`${request.url}: ${response.statusCode} instead of ${expectedStatus}.`);
      }
    }
  };
  const startMs = performance.now();
  await Promise.all(Array.from({ length: CONNECTIONS }, sendUntilNoneIsLeft));
  const seconds = (performance.now() - startMs) / 1_000;
  agent.destroy();
  return count / seconds;
}

function send(
  { url, method = "GET", headers = {} }: Request,
  agent: Agent | false,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    startRequest(url, { agent, method, headers }, resolve).on("error", reject).end();
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
