/** Finds an element by its id. @throws an Error if the page has no such element of this type. */
export function element<T extends HTMLElement>(id: string, type: new () => T): T {
  const found = document.getElementById(id);
  if (!(found instanceof type)) throw new Error(`The page lacks #${id}.`);
  return found;
}

/** Finds the first match of a selector inside `parent`. @throws an Error if nothing matches. */
export function inside(parent: ParentNode, selector: string): HTMLElement {
  const found = parent.querySelector(selector);
  if (!(found instanceof HTMLElement)) throw new Error(`The page lacks ${selector}.`);
  return found;
}

export function made<K extends keyof HTMLElementTagNameMap>(
  name: K,
  text = "",
  className = "",
): HTMLElementTagNameMap[K] {
  return Object.assign(document.createElement(name), { textContent: text, className });
}

/** Splits a line of Markdown whose only markup is inline code. */
export function inline(text: string): (string | HTMLElement)[] {
  return text.split("`").map((part, index) => (index % 2 === 0 ? part : made("code", part)));
}
