import { inside, made } from "./element.ts";

const LANGUAGES = 'input[name$="-language"]';

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

export function fill(selector: string, text: string): void {
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
async function copyText(button: HTMLButtonElement, text: string): Promise<void> {
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
