import { copyText } from "./copy.ts";
import { inside } from "./element.ts";

/** Puts the page's own address into the samples, and makes their buttons and tabs work. */
export function enliven(): void {
  fill("[data-origin]", location.origin);
  for (const button of document.querySelectorAll<HTMLButtonElement>("button[data-copy]")) {
    const code = inside(button.parentElement ?? document, "code");
    button.addEventListener("click", () => void copyText(button, code.textContent));
  }
  document.addEventListener("change", ({ target }) => {
    if (target instanceof HTMLInputElement && target.type === "radio") followLanguage(target);
  });
}

/** Sets the text of all matching elements. */
export function fill(selector: string, text: string): void {
  for (const target of document.querySelectorAll(selector)) target.textContent = text;
}

/** Selects the same language in all other samples, without moving what the reader looks at. */
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
