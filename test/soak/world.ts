import { setTimeout as pause } from "node:timers/promises";
import { readRetryAfterSeconds, readWindows } from "../../src/client/rate-limit-headers.ts";
import { differencesFromDocument } from "../../src/openapi/documented-answer.ts";
import { openList } from "../support/open-list.ts";
import type { Server } from "../support/server.ts";
import { type Draw, seededRandom } from "../rules/limits/traffic.ts";

const TIMEOUT_MS = 10_000;
/** The least time between two kills of the service, and half of the longest. */
const KILL_EVERY_MS = 12_000;

/** A response that is as documented. */
export type Answer = Awaited<ReturnType<typeof readAnswer>> & { sentMs: number };

/** A key, whose requests the service counts together. */
export interface Subject {
  readonly role: string;
  readonly name: string;
  readonly key: string;
  readonly answers: Answer[];
  /** When requests were sent whose answer is unknown: the service may have counted them. */
  readonly unknownMs: number[];
}

/** The service, which is killed now and then, and everything that its clients have seen of it. */
export class World {
  readonly draw: Draw;
  /** Descriptions of responses that are not as documented, and of wrong refusals. */
  readonly wrong: string[] = [];
  /** The number of 204 responses by the path of the order. */
  readonly cancelled = new Map<string, number>();
  kills = 0;
  /** The number of requests without a response, mostly because the service was killed. */
  lost = 0;
  /** The running service. While the service is down, the promise is pending. */
  server: Promise<Server>;
  readonly #start: () => Promise<Server>;
  readonly #endMs: number;

  constructor(start: () => Promise<Server>, minutes: number, seed: number) {
    this.#start = start;
    this.server = start();
    this.#endMs = Date.now() + minutes * 60_000;
    this.draw = seededRandom(seed);
  }

  async killAgainAndAgain(): Promise<void> {
    for (;;) {
      await this.wait(KILL_EVERY_MS * (1 + this.draw()));
      // Not near the end of the soak, so that the last requests get a response.
      if (this.#endMs - Date.now() < KILL_EVERY_MS / 2) return;
      this.kills += 1;
      this.server = this.server.then((server) => server.kill()).then(this.#start);
      await this.server;
    }
  }

  get isOver(): boolean {
    return Date.now() >= this.#endMs;
  }

  /** Waits this long, but not beyond the end of the soak. */
  wait(ms: number): Promise<void> {
    return pause(Math.max(0, Math.min(ms, this.#endMs - Date.now())));
  }

  /** Sends a request and records it. Returns `null` unless the response is as documented. */
  async send(subject: Subject, method: string, path: string): Promise<Answer | null> {
    const { url } = await this.server;
    const { kills } = this;
    const sentMs = Date.now();
    const headers = { Authorization: `Bearer ${subject.key}` };
    try {
      const signal = AbortSignal.timeout(TIMEOUT_MS);
      const response = await fetch(url + path, { method, headers, signal });
      const answer = { sentMs, ...(await readAnswer(response, method, path)) };
      if (answer.status === 503) subject.unknownMs.push(sentMs);
      subject.answers.push(answer);
      if (answer.status === 204) this.cancelled.set(path, (this.cancelled.get(path) ?? 0) + 1);
      return answer;
    } catch (error) {
      const isExpected = Object(error).name === "TimeoutError" || kills !== this.kills;
      if (!isExpected) this.wrong.push(`${method} ${path}: ${String(error)}`);
      this.lost += 1;
      subject.unknownMs.push(sentMs);
      return null;
    }
  }

  /** Requests the list, reads nothing of it, and disconnects after `stayMs` or at the end. */
  async leave(subject: Subject, stayMs: number): Promise<void> {
    subject.unknownMs.push(Date.now());
    const socket = openList(await this.server, subject.key);
    await this.wait(stayMs);
    socket.destroy();
  }
}

/** Reads a response. Throws if it is wrong or cut off. `code` is `null` if it is successful. */
async function readAnswer(response: Response, method: string, path: string) {
  const text = await response.text();
  const { status, headers } = response;
  // Does not validate the bodies of lists, because that would take most of the machine's time.
  const body = status === 200 ? null : text;
  const differences = differencesFromDocument({ method, path, status, headers, body });
  const [minute, day] = readWindows(headers);
  const isWhole = status !== 200 || text.endsWith("]");
  if (differences.length > 0 || status === 500 || !isWhole || minute === undefined || !day) {
    throw new Error(`${status} ${differences.join()} ${text.slice(0, 200)}`);
  }
  const code = status < 400 ? null : (JSON.parse(text) as { code: string }).code;
  const retryAfterSeconds = readRetryAfterSeconds(headers);
  return { receivedMs: Date.now(), status, code, minute, day, retryAfterSeconds };
}
