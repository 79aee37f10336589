import { element } from "./element.ts";
import { fill } from "./samples.ts";

/** The placeholder for a key in the samples. */
const NO_KEY = "YOUR_API_KEY";

/** Copies an edited API key to all other key fields of the page, and to the samples. */
export class KeyFields {
  readonly #fields = [...document.querySelectorAll<HTMLInputElement>("[data-key-field]")];

  constructor() {
    for (const field of this.#fields)
      field.addEventListener("input", () => this.#take(field.value));
    for (const button of document.querySelectorAll<HTMLButtonElement>("[data-show]")) {
      button.addEventListener("click", () => toggle(button));
    }
  }

  get key(): string {
    return this.#fields[0]?.value.trim() ?? "";
  }

  #take(value: string): void {
    for (const field of this.#fields) if (field.value !== value) field.value = value;
    fill("[data-key]", this.key || NO_KEY);
    for (const place of document.querySelectorAll("[data-key]")) {
      place.classList.toggle("filled", this.key !== "");
    }
  }
}

function toggle(button: HTMLButtonElement): void {
  const field = element(button.dataset["show"] ?? "", HTMLInputElement);
  const isShown = field.type === "password";
  field.type = isShown ? "text" : "password";
  button.setAttribute("aria-pressed", String(isShown));
}
