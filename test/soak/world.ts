import { connect } from "node:net";
import { type Draw, seededRandom } from "../rules/limits/traffic.ts";
import { type Answer, readAnswer } from "./answer.ts";
import { Subject } from "./referee.ts";
import type { Service } from "./service.ts";

const TIMEOUT_MS = 10_000;
/** The maximum number of requests of one client. */
const MAX_REQUESTS = 20_000;

export interface Ask {
  readonly method?: "GET" | "HEAD" | "DELETE" | "POST";
  readonly path?: string;
  readonly key?: string;
  readonly address?: string;
}

export class World {
  readonly service: Service;
  readonly endMs: number;
  readonly draw: Draw;
  readonly subjects: Subject[] = [];
  /** Descriptions of responses that are not as documented, and of wrong refusals. */
  readonly wrong: string[] = [];
  readonly statuses = new Map<number, number>();
  /** The number of 204 responses by the path of the order. */
  readonly cancelled = new Map<string, number>();
  /** The number of requests without a response, mostly because the service was killed. */
  lost = 0;
  /** The number of requests whose client did not wait for the response. */
  dropped = 0;
  requests = 0;

  constructor(service: Service, endMs: number, seed: number) {
    this.service = service;
    this.endMs = endMs;
    this.draw = seededRandom(seed);
  }

  subject(name: string, isWellBehaved: boolean): Subject {
    const subject = new Subject(name, isWellBehaved);
    this.subjects.push(subject);
    return subject;
  }

  /** Returns whether a client should send another request after `sent` requests. */
  goesOn(sent: number): boolean {
    return Date.now() < this.endMs && sent < MAX_REQUESTS;
  }

  async wait(ms: number): Promise<void> {
    const boundedMs = Math.max(0, Math.min(ms, this.endMs - Date.now()));
    await new Promise((resolve) => setTimeout(resolve, boundedMs));
  }

  /** Sends a request and records it. Returns `null` unless the response is as documented. */
  async send(subject: Subject, ask: Ask): Promise<Answer | null> {
    const { method = "GET", path = "/v1/store/orders", key, address = "192.0.2.1" } = ask;
    const url = await this.service.url;
    const { kills } = this.service;
    const sentMs = Date.now();
    this.requests += 1;
    const headers = {
      "CF-Connecting-IP": address,
      ...(key === undefined ? {} : { Authorization: `Bearer ${key}` }),
    };
    try {
      const signal = AbortSignal.timeout(TIMEOUT_MS);
      const response = await fetch(url + path, { method, headers, signal });
      const answer = await readAnswer(response, method, path, sentMs);
      if (typeof answer === "string") {
        this.wrong.push(`undocumented: ${answer}`);
        subject.record(sentMs, null);
        return null;
      }
      subject.record(sentMs, answer);
      this.statuses.set(answer.status, (this.statuses.get(answer.status) ?? 0) + 1);
      if (answer.status === 204) this.cancelled.set(path, (this.cancelled.get(path) ?? 0) + 1);
      return answer;
    } catch (error) {
      const isTimeout = error instanceof Error && error.name === "TimeoutError";
      if (!isTimeout && kills === this.service.kills) this.wrong.push(`cut off: ${method} ${path}`);
      this.lost += 1;
      subject.record(sentMs, null);
      return null;
    }
  }

  /** Requests the list, reads nothing of it, and disconnects after `stayMs` or at the end. */
  async leave(subject: Subject, key: string, stayMs: number): Promise<void> {
    const { hostname, port } = new URL(await this.service.url);
    this.requests += 1;
    this.dropped += 1;
    subject.record(Date.now(), null);
    const boundedMs = Math.max(0, Math.min(stayMs, this.endMs - Date.now()));
    await new Promise<void>((resolve) => {
      const socket = connect(Number(port), hostname);
      socket.on("error", () => resolve()).on("close", () => resolve());
      socket.write(
        `GET /v1/store/orders HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\n\r\n`,
        () => setTimeout(() => socket.destroy(), boundedMs),
      );
    });
  }
}
