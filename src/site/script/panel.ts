import { inline, inside, made } from "./element.ts";
import type { OrderList } from "./order-list.ts";
import { type Outcome, SHOWN_CHARACTERS } from "./request.ts";
import { clock, secondsLeft, type View, viewOf } from "./view.ts";

/** Shows the newest outcome of the requests of some buttons. Runs one request at a time. */
export class Panel {
  readonly root: HTMLElement;
  readonly #controls: Element;
  readonly #outcome: HTMLElement;
  readonly #wait: HTMLElement;
  readonly #busy: HTMLElement;
  readonly #sent: HTMLDetailsElement;
  #controller: AbortController | null = null;
  #view: View | null = null;

  /** Adds the panel behind the element with the buttons. */
  constructor(controls: Element) {
    const template = document.querySelector<HTMLTemplateElement>("#live")?.content;
    controls.after(template?.cloneNode(true) ?? "");
    this.root = controls.nextElementSibling as HTMLElement;
    this.#controls = controls;
    this.#outcome = inside(this.root, ".outcome");
    this.#wait = inside(this.root, ".wait");
    this.#busy = inside(this.root, ".busy");
    this.#sent = inside(this.root, ".sent") as HTMLDetailsElement;
    inside(this.#busy, "button").addEventListener("click", () => this.#controller?.abort());
    inside(this.#sent, "button").addEventListener("click", () => {
      const { longBody = null, head = "" } = this.#view?.received ?? {};
      const href = URL.createObjectURL(longBody ?? new Blob([head]));
      Object.assign(made("a"), { href, download: "orders.json" }).click();
      setTimeout(() => URL.revokeObjectURL(href), 60_000);
    });
  }

  get isBusy(): boolean {
    return this.#controller !== null;
  }

  /**
   * Runs `task`, unless another one runs. Shows its outcome, and until then nothing of an earlier one.
   *
   * @param task receives a function that shows its progress.
   * @param list the list that the task reads, if any.
   */
  async run(
    task: (signal: AbortSignal, say: (text: string) => void) => Promise<Outcome>,
    list: OrderList | null = null,
  ): Promise<Outcome | null> {
    if (this.isBusy) return null;
    const controller = new AbortController();
    this.#setBusy(controller);
    const progress = inside(this.#busy, "span");
    progress.textContent = "Sending …";
    this.#show(null);
    const outcome = await task(controller.signal, (text) => (progress.textContent = text));
    this.#setBusy(null);
    this.#show(viewOf(outcome, list));
    // Without rows of orders, the body is all there is to see.
    this.#sent.open = !list?.isWhole;
    const { activeElement } = document;
    const isAsked = activeElement === document.body || this.#controls.contains(activeElement);
    if (isAsked) this.#outcome.scrollIntoView({ block: "nearest" });
    return outcome;
  }

  /** Ends the countdown, because it was another key's. */
  forgetWait(): void {
    if (this.#view) this.#view = { ...this.#view, waitEndMs: null };
    this.tick();
  }

  tick(): void {
    const endMs = this.#view?.waitEndMs ?? null;
    this.#wait.hidden = endMs === null;
    if (endMs === null) return;
    const seconds = secondsLeft(endMs, Date.now());
    const text = seconds > 0 ? `Send it again in ${clock(seconds)}.` : "Send it again now.";
    const timer = inside(this.#wait, "span");
    if (timer.textContent !== text) timer.textContent = text;
  }

  #setBusy(controller: AbortController | null): void {
    this.#controller = controller;
    this.#busy.hidden = controller === null;
    for (const button of this.#controls.querySelectorAll("button")) {
      button.setAttribute("aria-disabled", String(controller !== null));
    }
  }

  #show(view: View | null): void {
    this.#view = view;
    this.tick();
    this.#outcome.replaceChildren();
    const received = view?.received ?? null;
    this.#sent.hidden = received === null;
    if (view === null) return;
    const line = made("p", "", "status-line");
    line.dataset["kind"] = view.isGood ? "good" : "bad";
    const [title = "", ...others] = view.line;
    line.append(made("b", title), ...others.map((part) => made("span", part)));
    const meaning = made("p");
    meaning.append(...inline(view.meaning));
    this.#outcome.append(line, meaning);
    if (received === null) return;
    inside(this.#sent, "pre").textContent = received.head;
    inside(this.#sent, ".note").textContent = received.longBody
      ? `Only the first ${SHOWN_CHARACTERS.toLocaleString("en")} characters are shown here. The download has them all.`
      : "";
    inside(this.#sent, "button").hidden = received.head === "";
    inside(this.#sent, "dl").replaceChildren(
      ...[...received.headers].flatMap(([name, value]) => [made("dt", name), made("dd", value)]),
    );
  }
}
