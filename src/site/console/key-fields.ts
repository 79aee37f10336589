import { fill } from "./samples.ts";

/** The placeholder for a key in the samples. */
const NO_KEY = "YOUR_API_KEY";

/**
 * The key fields of the page, which all hold the same API key. The fields and the samples show the
 * key only while "Show" is on.
 */
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

  get key(): string {
    return this.#fields[0]?.value.trim() ?? "";
  }

  /** Returns a sample with the key in place of the placeholder. */
  filled(sample: string): string {
    return sample.replaceAll(NO_KEY, () => this.key || NO_KEY);
  }

  #draw(): void {
    for (const field of this.#fields) field.type = this.#isShown ? "text" : "password";
    for (const button of this.#buttons) button.setAttribute("aria-pressed", String(this.#isShown));
    fill("[data-key]", this.#isShown ? this.filled(NO_KEY) : NO_KEY);
  }
}
