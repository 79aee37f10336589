import { curlLine, type Outcome } from "./answer.ts";
import { breakable, element, made } from "./element.ts";
import { copyText } from "./samples.ts";
import { SHOWN_CHARACTERS, type View, viewOf, waitAt } from "./view.ts";

/** Shows the newest outcome: each call of `show` replaces everything that an earlier one showed. */
export class AnswerView {
  readonly #summary = element("summary", HTMLElement);
  readonly #answer = element("answer", HTMLElement);
  readonly #body = element("body", HTMLElement);
  readonly #bodyNote = element("body-note", HTMLElement);
  readonly #headers = element("headers-sent", HTMLElement);
  /** The documented headers in their order and spelling, by name in lower case. */
  readonly #spellings = new Map(
    Array.from(document.querySelectorAll('[id^="header."] > th'), ({ textContent: name }) => [
      name.toLowerCase(),
      name,
    ]),
  );
  readonly #copyBody = element("copy-body", HTMLButtonElement);
  readonly #download = element("download", HTMLButtonElement);
  readonly #wait = element("wait", HTMLElement);
  #view: View | null = null;

  constructor() {
    const copyCurl = element("copy-curl", HTMLButtonElement);
    this.#copyBody.addEventListener("click", () => {
      void copyText(this.#copyBody, this.#view?.sent?.body ?? "");
    });
    copyCurl.addEventListener("click", () => {
      const sent = this.#view?.sent;
      if (sent) void copyText(copyCurl, curlLine(sent.request, location.origin));
    });
    this.#download.addEventListener("click", () => download(this.#view?.sent?.body ?? ""));
  }

  show(outcome: Outcome): void {
    const view = (this.#view = viewOf(outcome));
    const line = made("p", "", "status-line");
    line.dataset["kind"] = view.isGood ? "good" : "bad";
    const [title = "", ...others] = view.line;
    line.append(made("b", title));
    for (const part of others) {
      const span = made("span");
      span.append(...breakable(part, "/"));
      line.append(span);
    }
    this.#summary.replaceChildren(line, made("p", view.meaning, "meaning"));
    const { body, headers } = view.sent ?? { body: "", headers: new Headers() };
    const isLong = body.length > SHOWN_CHARACTERS;
    this.#answer.hidden = view.sent === null;
    this.#body.replaceChildren(...breakable(body.slice(0, SHOWN_CHARACTERS), ","));
    this.#bodyNote.textContent = isLong
      ? `Only the first ${SHOWN_CHARACTERS.toLocaleString("en")} characters are shown here. The download has them all.`
      : "";
    this.#copyBody.hidden = isLong;
    this.#download.hidden = !isLong;
    const names = new Set([...this.#spellings.keys(), ...headers.keys()]);
    this.#headers.replaceChildren(
      ...[...names].flatMap((name) => {
        const value = headers.get(name);
        return value === null
          ? []
          : [made("dt", this.#spellings.get(name) ?? name), made("dd", value)];
      }),
    );
    this.tick();
  }

  /** Updates the countdown. */
  tick(): void {
    const wait = this.#view?.wait ?? null;
    this.#wait.hidden = wait === null;
    if (wait === null) return;
    const { look, title, time, meaning } = waitAt(wait, Date.now());
    this.#wait.className = `wait ${look}`;
    for (const [id, text] of Object.entries({ title, time, meaning })) {
      const target = element(`wait-${id}`, HTMLElement);
      if (target.textContent !== text) target.textContent = text;
    }
  }
}

function download(text: string): void {
  const href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  Object.assign(made("a"), { href, download: "orders.json" }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
}
