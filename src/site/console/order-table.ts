import type { Outcome } from "./answer.ts";
import { element, inside, made } from "./element.ts";
import { isWholeList, type ListedOrder, OrderList } from "./order-list.ts";
import { countText, type RowState, rowStateOf } from "./view.ts";

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
  #list: OrderList | null = null;
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
    this.#draw();
  }

  /** Shows what became of a cancellation in the row of the order. Keeps the focus there. */
  showState(orderId: string, state: RowState): void {
    if (this.#list === null) return;
    this.#states.set(orderId, state);
    this.#drawNote();
    const row = [...this.#rows.children].find((one) => inside(one, "td").textContent === orderId);
    if (row === undefined) return;
    const hadFocus =
      row.contains(document.activeElement) || document.activeElement === document.body;
    row.className = state.settled === "" ? "" : `settled ${state.settled}`;
    const action = inside(row, "td:last-child");
    action.replaceChildren(...actionsOf(orderId, state));
    if (!hadFocus) return;
    action.tabIndex = -1;
    (action.querySelector("button") ?? action).focus({ preventScroll: true });
  }

  showCancellation(orderId: string, outcome: Outcome): void {
    this.showState(orderId, rowStateOf(outcome));
  }

  #draw(): void {
    const list = this.#list;
    if (list === null) return;
    const id = this.#find.value.trim();
    const found = id === "" ? null : list.find(id);
    const orders = id === "" ? list.first(MAX_ROWS) : found === null ? [] : [found];
    this.#root.hidden = false;
    this.#rows.replaceChildren(...orders.map((order) => this.#row(order)));
    this.#drawNote();
  }

  #drawNote(): void {
    if (this.#list === null) return;
    const isMissing = this.#find.value.trim() !== "" && this.#rows.children.length === 0;
    const gone = [...this.#states].filter(
      ([id, { settled }]) =>
        /^(?:cancelled|order_not_found)$/.test(settled) && this.#list?.find(id) !== null,
    );
    const count = countText(this.#list.total, gone.length, MAX_ROWS);
    this.#note.textContent = isMissing ? `No order in this list has this id. ${count}` : count;
  }

  #row(order: ListedOrder): HTMLTableRowElement {
    const line = made("tr");
    line.setAttribute("role", "row");
    for (const field of this.#fields) {
      const value = cell(field in order ? String(order[field]) : "");
      value.dataset["field"] = field;
      line.append(value);
    }
    const id = String(order["id"]);
    const state = this.#states.get(id);
    if (state?.settled) line.className = `settled ${state.settled}`;
    const action = cell();
    action.append(...actionsOf(id, state));
    line.append(action);
    return line;
  }
}

/** The note of a row, and the button that cancels its order, unless its fate is settled. */
function actionsOf(id: string, state?: RowState): (string | HTMLElement)[] {
  if (state?.settled) return [state.note];
  const button = made("button", "Cancel", "quiet");
  button.type = "button";
  button.dataset["orderId"] = id;
  button.setAttribute("aria-label", `Cancel order ${id}`);
  return state === undefined ? [button] : [made("span", state.note, "row-note"), button];
}

function cell(text = ""): HTMLTableCellElement {
  const created = made("td", text);
  created.setAttribute("role", "cell");
  return created;
}
