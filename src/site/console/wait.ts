import { type Answer, codeOf } from "./answer.ts";
import { element } from "./element.ts";
import { readRetryAfterSeconds } from "../../client/rate-limit-headers.ts";

const LIMIT = {
  title: "Limit reached",
  meaning:
    "A window is full. Wait, and the next request is admitted. Keep sending, and the key is banned.",
  over: "The wait is over: the next request is admitted.",
};

const BAN = {
  title: "Key banned",
  meaning: "The key kept sending instead of waiting. Requests during the ban change nothing.",
  over: "The ban is over: send one request.",
};

/** The countdown of `Retry-After`, after a limit is reached or a key is banned. */
export class Wait {
  readonly #box = element("wait", HTMLElement);
  readonly #title = element("wait-title", HTMLElement);
  readonly #time = element("wait-time", HTMLElement);
  readonly #meaning = element("wait-meaning", HTMLElement);
  #kind = LIMIT;
  #endMs: number | null = null;

  show(answer: Answer): void {
    const seconds = answer.status === 429 ? readRetryAfterSeconds(answer.headers) : null;
    this.#endMs = seconds === null ? null : answer.receivedMs + seconds * 1_000;
    this.#box.hidden = seconds === null;
    if (seconds === null) return;
    this.#kind = codeOf(answer) === "api_key_banned" ? BAN : LIMIT;
    this.#box.className = `wait ${this.#kind === BAN ? "ban" : "limit"}`;
    this.#title.textContent = this.#kind.title;
    this.#meaning.textContent = this.#kind.meaning;
    this.tick();
  }

  hide(): void {
    this.#endMs = null;
    this.#box.hidden = true;
  }

  tick(): void {
    if (this.#endMs === null) return;
    const left = Math.max(0, Math.ceil((this.#endMs - Date.now()) / 1_000));
    this.#time.textContent = clock(left);
    if (left > 0) return;
    this.#endMs = null;
    this.#box.className = "wait over";
    this.#meaning.textContent = this.#kind.over;
  }
}

/** Formats a duration such as `0:47`, `12:05` or `23:59:59`. */
function clock(seconds: number): string {
  const twoDigits = (value: number) => String(value).padStart(2, "0");
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}:${twoDigits(seconds % 60)}`;
  return `${Math.floor(minutes / 60)}:${twoDigits(minutes % 60)}:${twoDigits(seconds % 60)}`;
}
