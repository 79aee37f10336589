import { element, inside } from "./element.ts";
import { clock, secondsLeft } from "./view.ts";

/** The body of `GET /v1/quota`. */
export interface Quota {
  readonly plan: string;
  readonly windows: readonly {
    readonly name: string;
    readonly limit: number;
    readonly remaining: number;
    readonly resetsAt: string | null;
  }[];
  readonly ban: object | null;
  readonly retryAfterSeconds: number;
}

/** A key is `sord_` and 40 characters of base32. Nothing else is worth a request. */
const KEY = /^sord_[a-z2-7]{40}$/;

/** A meter shows a warning if at most this share of a window's requests is left. */
const LOW_SHARE = 0.2;

/** What is left of the limits of the key that is in the field now, from `GET /v1/quota`. */
export class QuotaView {
  readonly #note = element("key-note", HTMLElement);
  readonly #wait = element("wait", HTMLElement);
  #controller = new AbortController();
  #quota: Quota | null = null;
  /** The service's clock minus the reader's, in milliseconds. */
  #aheadMs = 0;
  #waitEndMs = 0;
  /** The first end of a window or wait, after which the quota has to be looked up again. */
  #nextEndMs = Infinity;
  #key = "";

  /** Shows nothing of an earlier key. */
  show(key: string): Promise<void> {
    this.#key = key;
    this.#note.textContent = "";
    this.#draw(null);
    return this.refresh();
  }

  /** Looks the quota up, which counts as no request. */
  async refresh(): Promise<void> {
    this.#controller.abort();
    if (!KEY.test(this.#key)) return;
    const { signal } = (this.#controller = new AbortController());
    try {
      const headers = { Authorization: `Bearer ${this.#key}` };
      const response = await fetch("/v1/quota", { headers, signal, cache: "no-store" });
      const quota = response.ok ? ((await response.json()) as Quota) : null;
      if (signal.aborted) return;
      const serviceMs = Date.parse(response.headers.get("Date") ?? "");
      this.#aheadMs = Number.isNaN(serviceMs) ? 0 : serviceMs - Date.now();
      this.#note.toggleAttribute("data-good", quota !== null);
      this.#note.textContent =
        (quota && `${quota.plan} plan`) ??
        (response.status === 401 ? "not a key of this service" : "limits unknown");
      this.#draw(quota);
    } catch {
      if (!signal.aborted) this.#draw(null);
    }
  }

  #draw(quota: Quota | null): void {
    const nowMs = Date.now();
    this.#quota = quota;
    this.#waitEndMs = nowMs + (quota?.retryAfterSeconds ?? 0) * 1_000;
    const ends = (quota?.windows ?? []).map(({ resetsAt }) => Date.parse(resetsAt ?? ""));
    const open = [...ends.map((end) => end - this.#aheadMs), this.#waitEndMs];
    this.#nextEndMs = Math.min(...open.filter((end) => end > nowMs));
    this.tick();
  }

  tick(): void {
    const nowMs = Date.now();
    const meters = this.#quota ? metersAt(this.#quota, nowMs + this.#aheadMs) : [];
    for (const meter of document.querySelectorAll<HTMLElement>("[data-window]")) {
      const own = meters.find(({ name }) => name === meter.dataset["window"]);
      const { limit, left, level, figure, note } = own ?? UNKNOWN;
      meter.dataset["level"] = level;
      inside(meter, ".figure").textContent = figure;
      inside(meter, ".note").textContent = note;
      inside(meter, ".fill").style.width = `${(100 * left) / Math.max(1, limit)}%`;
      const track = inside(meter, ".track");
      track.setAttribute("aria-valuemax", String(limit));
      track.setAttribute("aria-valuenow", String(left));
      track.setAttribute("aria-valuetext", `${figure} ${note}`);
    }
    const seconds = secondsLeft(this.#waitEndMs, nowMs);
    this.#wait.hidden = seconds === 0;
    this.#wait.className = this.#quota?.ban ? "ban" : "limit";
    inside(this.#wait, "b").textContent = this.#quota?.ban ? "Key banned" : "Limit reached";
    inside(this.#wait, "span").textContent = clock(seconds);
    if (nowMs < this.#nextEndMs) return;
    this.#nextEndMs = Infinity;
    void this.refresh();
  }
}

const UNKNOWN = { limit: 0, left: 0, level: "unknown", figure: "–", note: "" };

/** Returns the meters at a time of the service. After a window ends, its whole limit is left. */
export function metersAt({ windows }: Quota, nowMs: number) {
  return windows.map(({ name, limit, remaining, resetsAt }) => {
    const seconds = secondsLeft(Date.parse(resetsAt ?? ""), nowMs);
    const left = seconds > 0 ? remaining : limit;
    const level = left === 0 ? "none" : left <= limit * LOW_SHARE ? "low" : "plenty";
    const figure = `${left.toLocaleString("en")} of ${limit.toLocaleString("en")}`;
    const note = left === limit ? "all left" : `back in ${clock(seconds)}`;
    return { name, limit, left, level, figure, note };
  });
}
