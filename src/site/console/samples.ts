import { inside, made } from "./element.ts";
import { readKey } from "./key.ts";

const NO_KEY = "YOUR_API_KEY";

const LANGUAGES = 'input[name$="-language"]';

/** The fields for the API key. All hold the same key, and hide the key unless "Show" is on. */
export class KeyFields {
  readonly #fields = [...document.querySelectorAll<HTMLInputElement>("[data-key-field]")];
  readonly #buttons = [...document.querySelectorAll<HTMLButtonElement>("[data-show]")];
  #isShown = false;

  constructor() {
    for (const field of this.#fields) {
      field.addEventListener("input", () => {
        for (const other of this.#fields) if (other !== field) other.value = field.value;
        this.#draw();
      });
    }
    for (const button of this.#buttons) {
      button.addEventListener("click", () => {
        this.#isShown = !this.#isShown;
        this.#draw();
      });
    }
  }

  get entered(): ReturnType<typeof readKey> {
    return readKey(this.#fields[0]?.value ?? "");
  }

  /** Returns a sample with the key in place of the placeholder. */
  filled(sample: string): string {
    return sample.replaceAll(NO_KEY, () => this.entered.key || NO_KEY);
  }

  #draw(): void {
    for (const field of this.#fields) field.type = this.#isShown ? "text" : "password";
    for (const button of this.#buttons) button.setAttribute("aria-pressed", String(this.#isShown));
    fill("[data-key]", this.#isShown ? this.filled(NO_KEY) : NO_KEY);
  }
}

/** Puts the page's address into the samples, adds their buttons, and makes their tabs work. */
export function enliven(filled: (sample: string) => string): void {
  fill("[data-origin]", location.origin);
  for (const sample of document.querySelectorAll("[data-copy]")) {
    const button = made("button", "Copy", "copy");
    const label = inside(sample, "pre").getAttribute("aria-label") ?? "";
    button.type = "button";
    button.setAttribute("aria-label", `Copy: ${label}`);
    button.addEventListener("click", () => {
      void copyText(button, filled(inside(sample, "code").textContent));
    });
    sample.append(button);
  }
  document.addEventListener("change", ({ target }) => {
    if (target instanceof HTMLInputElement && target.matches(LANGUAGES)) followLanguage(target);
  });
}

function fill(selector: string, text: string): void {
  for (const target of document.querySelectorAll(selector)) target.textContent = text;
}

/** Selects the language in all samples. Scrolls to keep the chosen tab in place on the screen. */
function followLanguage(chosen: HTMLInputElement): void {
  const before = chosen.getBoundingClientRect().top;
  for (const radio of document.querySelectorAll<HTMLInputElement>(LANGUAGES)) {
    if (radio.value === chosen.value) radio.checked = true;
  }
  scrollBy({ top: chosen.getBoundingClientRect().top - before, behavior: "instant" });
}

/** Copies a text to the clipboard, and shows the result on the button that was pressed. */
export async function copyText(button: HTMLButtonElement, text: string): Promise<void> {
  const label = (button.dataset["label"] ??= button.textContent);
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    // On pages that were loaded over plain HTTP, browsers block the clipboard, except on localhost.
    button.textContent = "Not copied: select it";
  }
  setTimeout(() => (button.textContent = label), 1_500);
}
