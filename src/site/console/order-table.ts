import type { Outcome } from "./answer.ts";
import { element, inside, made } from "./element.ts";
import { isWholeList, type ListedOrder, OrderList } from "./order-list.ts";
import { countText, type RowState } from "./view.ts";

const MAX_ROWS = 100;

/** The newest complete list, with the outcome of each cancellation in the row of its order. */
export class OrderTable {
  readonly #root = element("orders", HTMLElement);
  readonly #rows = inside(this.#root, "tbody");
  readonly #note = element("orders-note", HTMLElement);
  readonly #find = element("find-id", HTMLInputElement);
  readonly #fields = [...this.#root.querySelectorAll("th")]
    .slice(0, -1)
    .map(({ textContent }) => textContent);
  #list = new OrderList("[]");
  readonly #states = new Map<string, RowState>();

  constructor(cancel: (orderId: string) => void) {
    this.#rows.addEventListener("click", ({ target }) => {
      const id = target instanceof HTMLButtonElement ? target.dataset["orderId"] : undefined;
      if (id !== undefined) cancel(id);
    });
    this.#find.addEventListener("input", () => this.#draw());
  }

  /** Shows the orders of a list. Keeps what it shows after any other outcome. */
  showList(outcome: Outcome): void {
    if (outcome.kind !== "answer" || outcome.answer.status !== 200) return;
    if (!isWholeList(outcome.answer.body)) return;
    this.#list = new OrderList(outcome.answer.body);
    this.#states.clear();
    this.#find.value = "";
    inside(this.#root, "label").hidden = this.#list.total === 0;
    this.#draw();
  }

  /** Shows what became of a cancellation in the row of the order. Returns if the focus is there. */
  showState(orderId: string, state: RowState): boolean {
    this.#states.set(orderId, state);
    this.#drawNote();
    const row = [...this.#rows.children].find((one) => inside(one, "td").textContent === orderId);
    if (row === undefined) return false;
    const hadFocus =
      row.contains(document.activeElement) || document.activeElement === document.body;
    const action = inside(row, "td:last-child");
    this.#drawState(row, action, orderId);
    if (!hadFocus) return false;
    action.tabIndex = -1;
    (action.querySelector("button") ?? action).focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
    return true;
  }

  #draw(): void {
    const id = this.#find.value.trim();
    const found = id === "" ? null : this.#list.find(id);
    const orders = id === "" ? this.#list.first(MAX_ROWS) : found === null ? [] : [found];
    this.#root.hidden = false;
    this.#rows.replaceChildren(...orders.map((order) => this.#row(order)));
    this.#drawNote();
  }

  #drawNote(): void {
    const gone = [...this.#states].filter(
      ([id, { settled }]) =>
        /^(?:cancelled|order_not_found)$/.test(settled) && this.#list.find(id) !== null,
    );
    const isFinding = this.#find.value.trim() !== "";
    const rows = this.#rows.children.length;
    this.#note.textContent = countText(this.#list.total, gone.length, rows, isFinding);
  }

  #row(order: ListedOrder): HTMLTableRowElement {
    const line = made("tr");
    line.setAttribute("role", "row");
    for (const field of this.#fields) {
      const value = cell(field in order ? String(order[field]) : "");
      value.dataset["field"] = field;
      line.append(value);
    }
    const action = cell();
    line.append(action);
    this.#drawState(line, action, String(order["id"]));
    return line;
  }

  /** Draws the note of a row, and the button that cancels its order, unless its fate is settled. */
  #drawState(row: Element, action: HTMLElement, id: string): void {
    const state = this.#states.get(id);
    row.className = state?.settled ? `settled ${state.settled}` : "";
    if (state?.settled) return action.replaceChildren(state.note);
    const button = made("button", "Cancel", "quiet");
    button.type = "button";
    button.dataset["orderId"] = id;
    button.setAttribute("aria-label", `Cancel order ${id}`);
    action.replaceChildren(...(state ? [made("span", state.note, "row-note")] : []), button);
  }
}

function cell(text = ""): HTMLTableCellElement {
  const created = made("td", text);
  created.setAttribute("role", "cell");
  return created;
}
