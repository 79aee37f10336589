import type { Outcome } from "./answer.ts";
import { element, inside } from "./element.ts";
import { metersAt, type Quota, quotaOf } from "./view.ts";

/** The meters of the minute and the day, from the newest answer that tells of them. */
export class Meters {
  readonly #root = element("meters", HTMLElement);
  readonly #subject = element("meters-subject", HTMLElement);
  #quota: Quota | null = null;

  show(outcome: Outcome): void {
    const quota = outcome.kind === "answer" ? quotaOf(outcome.answer) : null;
    if (quota === null) return;
    this.#quota = quota;
    this.#subject.textContent = quota.subject;
    this.tick();
  }

  tick(): void {
    if (this.#quota === null) return;
    for (const { name, limit, left, level, figure, note } of metersAt(this.#quota, Date.now())) {
      const meter = inside(this.#root, `[data-window="${name}"]`);
      meter.dataset["level"] = level;
      inside(meter, ".figure").textContent = figure;
      inside(meter, ".note").textContent = note;
      inside(meter, ".fill").style.width = `${(100 * left) / limit}%`;
      const track = inside(meter, ".track");
      track.setAttribute("aria-valuemax", String(limit));
      track.setAttribute("aria-valuenow", String(left));
      track.setAttribute("aria-valuetext", `${figure}, ${note}`);
    }
  }
}
