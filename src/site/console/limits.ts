import { type Answer, codeOf } from "./answer.ts";
import { element, inside } from "./element.ts";
import {
  readRetryAfterSeconds,
  readWindows,
  type WindowQuota,
} from "../../client/rate-limit-headers.ts";

const WHEN: Readonly<Record<string, string>> = { minute: "this minute", day: "today" };

/** A meter shows a warning if at most this share of a window's requests is left. */
const LOW_SHARE = 0.2;

/** The meters of the minute and the day: the requests left, and the time until the window ends. */
export class Meters {
  readonly #root = element("meters", HTMLElement);
  readonly #subject = element("meters-subject", HTMLElement);
  #windows: readonly WindowQuota[] = [];
  #receivedMs = 0;
  /** True if the latest response reported a ban: no requests are left until the ban ends. */
  #isBan = false;

  show(answer: Answer): void {
    const windows = readWindows(answer.headers);
    if (windows.length === 0) return;
    this.#windows = windows;
    this.#receivedMs = answer.receivedMs;
    this.#isBan = codeOf(answer) === "api_key_banned";
    // A 401 always shows the budget of the address. A 429 is ambiguous: its `code` is the same for
    // the limit of an address and of a key.
    this.#subject.textContent =
      answer.status === 401
        ? "This is the budget of your address for requests without a valid key."
        : "";
    this.tick();
  }

  /** Updates the meters. After a window ends, its whole limit is left, except during a ban. */
  tick(): void {
    for (const window of this.#windows) this.#draw(window);
  }

  #draw({ name, limit, remaining, resetSeconds }: WindowQuota): void {
    const secondsLeft = Math.max(
      0,
      resetSeconds - Math.floor((Date.now() - this.#receivedMs) / 1_000),
    );
    const left = secondsLeft > 0 || this.#isBan ? remaining : limit;
    const meter = inside(this.#root, `[data-window="${name}"]`);
    meter.dataset["level"] = left === 0 ? "none" : left <= limit * LOW_SHARE ? "low" : "plenty";
    const figures = `${left.toLocaleString("en")} of ${limit.toLocaleString("en")}`;
    setText(inside(meter, ".figure"), figures);
    const ends = this.#isBan
      ? secondsLeft === 0
        ? "known after the next answer"
        : "nothing until the ban ends"
      : secondsLeft === 0
        ? "full again"
        : `back in ${duration(secondsLeft)}`;
    setText(inside(meter, ".meter-note"), left === limit && secondsLeft > 0 ? "all left" : ends);
    inside(meter, ".fill").style.width = `${(100 * left) / limit}%`;
    const track = inside(meter, ".track");
    track.setAttribute("aria-valuemax", String(limit));
    track.setAttribute("aria-valuenow", String(left));
    track.setAttribute("aria-valuetext", `${figures} requests left ${WHEN[name]}, ${ends}`);
  }
}

function setText(target: HTMLElement, text: string): void {
  if (target.textContent !== text) target.textContent = text;
}

/** Formats a duration such as `59 s`, `12 min` or `23 h 59 min`. */
function duration(seconds: number): string {
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.ceil(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

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
