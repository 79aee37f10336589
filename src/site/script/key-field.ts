import { element } from "./element.ts";
import { fill } from "./samples.ts";

const NO_KEY = "YOUR_API_KEY";

/**
 * Reads the key that a reader pasted. Cuts off space around it, and a pasted `Bearer `.
 *
 * @returns a `problem` if the text cannot be a key, with an empty `key`.
 */
export function readKey(text: string): { readonly key: string; readonly problem: string | null } {
  const key = text.trim().replace(/^(?:authorization:\s*)?bearer\s+/i, "");
  if (/^[\x21-\x7e]*$/.test(key)) return { key, problem: null };
  const problem =
    "This is no API key: it has a space, or a character that a key never has and that may be invisible. Copy the key again. Nothing was sent.";
  return { key: "", problem };
}

/** The field for the API key, which hides the key unless "Show" is on. */
export class KeyField {
  readonly #field = element("key", HTMLInputElement);
  readonly #show = element("show-key", HTMLButtonElement);

  /** @param onChange is called after each change of the key. */
  constructor(onChange: () => void) {
    this.#field.addEventListener("input", () => {
      this.#draw();
      onChange();
    });
    this.#show.addEventListener("click", () => {
      this.#field.type = this.#field.type === "text" ? "password" : "text";
      this.#draw();
    });
    element("key-form", HTMLFormElement).addEventListener("submit", (event) => {
      event.preventDefault();
      onChange();
    });
  }

  get entered(): ReturnType<typeof readKey> {
    return readKey(this.#field.value);
  }

  /** Returns a sample with the key in place of the placeholder. */
  filled(sample: string): string {
    return sample.replaceAll(NO_KEY, () => this.entered.key || NO_KEY);
  }

  #draw(): void {
    const isShown = this.#field.type === "text";
    this.#show.setAttribute("aria-pressed", String(isShown));
    fill("[data-key]", isShown ? this.filled(NO_KEY) : NO_KEY);
  }
}
