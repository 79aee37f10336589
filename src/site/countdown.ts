import type { Answer } from "./answer.ts";
import { element } from "./element.ts";
import { waitMeaning } from "./meaning.ts";
import { readRetryAfterSeconds } from "../client/rate-limit-headers.ts";

/** The countdown of `Retry-After`, with an explanation of the wait. */
export class Countdown {
  readonly #box = element("wait", HTMLElement);
  readonly #seconds = element("wait-seconds", HTMLElement);
  readonly #meaning = element("wait-meaning", HTMLElement);
  #endMs: number | null = null;

  show(answer: Answer): void {
    const seconds = answer.status === 429 ? readRetryAfterSeconds(answer.headers) : null;
    this.#endMs = seconds === null ? null : answer.receivedMs + seconds * 1_000;
    this.#box.hidden = seconds === null;
    this.#box.classList.remove("over");
    this.#meaning.textContent = seconds === null ? "" : waitMeaning(answer);
    this.tick();
  }

  tick(): void {
    if (this.#endMs === null) return;
    const left = Math.max(0, Math.ceil((this.#endMs - Date.now()) / 1_000));
    this.#seconds.textContent = `${left} s`;
    if (left > 0) return;
    this.#endMs = null;
    this.#box.classList.add("over");
    this.#meaning.textContent = "The wait is over: the next request is admitted.";
  }
}
