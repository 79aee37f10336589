import { copyText } from "./copy.ts";
import { inside } from "./element.ts";

/**
 * Puts the page's address into the samples, and adds the listeners of their buttons and tabs.
 *
 * @param filled puts the reader's key into a sample that is copied.
 */
export function enliven(filled: (sample: string) => string): void {
  fill("[data-origin]", location.origin);
  for (const button of document.querySelectorAll<HTMLButtonElement>("button[data-copy]")) {
    const code = inside(button.parentElement ?? document, "code");
    button.addEventListener("click", () => void copyText(button, filled(code.textContent)));
  }
  document.addEventListener("change", ({ target }) => {
    if (target instanceof HTMLInputElement && target.type === "radio") followLanguage(target);
  });
}

/** Sets the text of all matching elements. */
export function fill(selector: string, text: string): void {
  for (const target of document.querySelectorAll(selector)) target.textContent = text;
}

/**
 * Selects the same language in all samples, and scrolls so that the chosen tab does not move on the
 * screen.
 */
function followLanguage(chosen: HTMLInputElement): void {
  if (!chosen.name.endsWith("-language")) return;
  const before = chosen.getBoundingClientRect().top;
  for (const radio of document.querySelectorAll<HTMLInputElement>(
    'input[type="radio"][name$="-language"]',
  )) {
    if (radio.value === chosen.value) radio.checked = true;
  }
  scrollBy({ top: chosen.getBoundingClientRect().top - before, behavior: "instant" });
}
