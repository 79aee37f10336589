import { type Answer, codeOf } from "./answer.ts";
import { element, inside } from "./element.ts";
import type { WindowQuota } from "../../client/rate-limit-headers.ts";
import { duration, type Quota, quotaIn } from "./quota.ts";

const WINDOWS = { minute: "this minute", day: "today" } as const;

/** A meter shows a warning if at most this share of a window's requests is left. */
const LOW_SHARE = 0.2;

/**
 * The two rate-limit meters. They show the requests left in each window and the time until the
 * window ends.
 */
export class Meters {
  readonly #root = element("meters", HTMLElement);
  readonly #subject = element("meters-subject", HTMLElement);
  #quota: Quota | null = null;
  #receivedMs = 0;
  /**
   * True if the latest response refused a banned key. Its headers then show 0 requests left in both
   * windows until the ban ends.
   */
  #isBan = false;

  show(answer: Answer): void {
    const quota = quotaIn(answer.headers);
    if (quota === null) return;
    this.#quota = quota;
    this.#receivedMs = answer.receivedMs;
    this.#isBan = codeOf(answer) === "api_key_banned";
    // A 401 reports the limits of the client's address. A 429 can report the limits of the address
    // or of the key, and has the same `code` for both. So only a 401 shows the note about the
    // address.
    this.#subject.textContent =
      answer.status === 401
        ? "This is the budget of your address for requests without a valid key."
        : "";
    this.tick();
  }

  /**
   * Updates the meters to the present time. A window that has ended has its full limit left again.
   */
  tick(): void {
    if (this.#quota === null) return;
    for (const name of ["minute", "day"] as const) this.#draw(name, this.#quota[name]);
  }

  #draw(name: keyof Quota, { limit, remaining, resetSeconds }: WindowQuota): void {
    const secondsLeft = Math.max(
      0,
      resetSeconds - Math.floor((Date.now() - this.#receivedMs) / 1_000),
    );
    const left = secondsLeft > 0 || this.#isBan ? remaining : limit;
    const meter = inside(this.#root, `[data-window="${name}"]`);
    meter.dataset["level"] = left === 0 ? "none" : left <= limit * LOW_SHARE ? "low" : "plenty";
    const figures = `${left.toLocaleString("en")} of ${limit.toLocaleString("en")}`;
    setText(inside(meter, ".figure"), figures);
    const ends = this.#isBan ? banNote(secondsLeft) : windowNote(secondsLeft);
    setText(inside(meter, ".meter-note"), left === limit && secondsLeft > 0 ? "all left" : ends);
    inside(meter, ".fill").style.width = `${(100 * left) / limit}%`;
    const track = inside(meter, ".track");
    track.setAttribute("aria-valuemax", String(limit));
    track.setAttribute("aria-valuenow", String(left));
    track.setAttribute("aria-valuetext", `${figures} requests left ${WINDOWS[name]}, ${ends}`);
  }
}

function windowNote(secondsLeft: number): string {
  return secondsLeft === 0 ? "full again" : `back in ${duration(secondsLeft)}`;
}

function banNote(secondsLeft: number): string {
  return secondsLeft === 0 ? "known after the next answer" : "nothing until the ban ends";
}

function setText(target: HTMLElement, text: string): void {
  if (target.textContent !== text) target.textContent = text;
}
