/**
 * The element with that id.
 *
 * @throws {Error} where the page has none of that type.
 */
export function element<T extends HTMLElement>(id: string, type: new () => T): T {
  const found = document.getElementById(id);
  if (!(found instanceof type)) throw new Error(`The page lacks #${id}.`);
  return found;
}

/** The first element inside `parent` that a selector matches. */
export function inside(parent: ParentNode, selector: string): HTMLElement {
  const found = parent.querySelector(selector);
  if (!(found instanceof HTMLElement)) throw new Error(`The page lacks ${selector}.`);
  return found;
}

/** A new element with text in it. */
export function made<K extends keyof HTMLElementTagNameMap>(
  name: K,
  text = "",
): HTMLElementTagNameMap[K] {
  const created = document.createElement(name);
  created.textContent = text;
  return created;
}
