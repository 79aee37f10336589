import { once } from "node:events";
import {
  Agent,
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request as sendRequest,
  type Server,
} from "node:http";
import type { AddressInfo } from "node:net";

/** A request of a client and the response. Times are in milliseconds of `performance.now()`. */
export interface Exchange {
  readonly key: string;
  readonly status: number;
  readonly isBan: boolean;
  readonly retryAfterSeconds: number | null;
  readonly arrivedMs: number;
  readonly answeredMs: number;
}

/** A proxy between the clients and the service that records every request and its response. */
export class RecordingProxy implements AsyncDisposable {
  readonly exchanges: Exchange[] = [];
  readonly #server: Server;
  readonly #agent = new Agent({ keepAlive: true });

  private constructor(servicePort: number) {
    this.#server = createServer((request, response) => {
      const arrivedMs = performance.now();
      const { method, url, headers } = request;
      const onward = sendRequest({
        port: servicePort,
        host: "127.0.0.1",
        agent: this.#agent,
        method,
        path: url,
        // Asks the service for uncompressed response bodies, because the proxy reads them.
        headers: { ...headers, "accept-encoding": "identity" },
      });
      onward.on("response", (answer) => {
        const parts: Buffer[] = [];
        answer.on("data", (part: Buffer) => parts.push(part));
        answer.on("end", () => {
          const body = Buffer.concat(parts);
          this.exchanges.push(describe(headers, answer, body, arrivedMs));
          response.writeHead(answer.statusCode ?? 0, answer.rawHeaders).end(body);
        });
      });
      onward.on("error", () => response.destroy());
      request.pipe(onward);
    });
  }

  static async start(servicePort: number): Promise<RecordingProxy> {
    const proxy = new RecordingProxy(servicePort);
    await once(proxy.#server.listen(0, "127.0.0.1"), "listening");
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  of(key: string): Exchange[] {
    return this.exchanges.filter((exchange) => exchange.key === key);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
    this.#agent.destroy();
  }
}

function describe(
  { authorization = "" }: IncomingHttpHeaders,
  answer: IncomingMessage,
  body: Buffer,
  arrivedMs: number,
): Exchange {
  const retryAfter = answer.headers["retry-after"];
  return {
    key: authorization.replace("Bearer ", ""),
    status: answer.statusCode ?? 0,
    isBan: body.includes('"api_key_banned"'),
    retryAfterSeconds: retryAfter === undefined ? null : Number(retryAfter),
    arrivedMs,
    answeredMs: performance.now(),
  };
}
