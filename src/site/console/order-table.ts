import { parse } from "lossless-json";
import { type Answer, codeOf } from "./answer.ts";
import { element, inside, made } from "./element.ts";

const MAX_ROWS = 100;

/** The text that replaces an order's cancel button, by the result of the cancellation. */
const NOTES: Readonly<Record<string, string>> = {
  cancelled: "Cancelled",
  order_already_shipped: "Has shipped",
  order_not_found: "Is gone",
};

/** A table of orders, each with a button that cancels it. Shows integers with every digit. */
export class OrderTable {
  readonly #root = element("orders", HTMLElement);
  readonly #rows = inside(this.#root, "tbody");
  readonly #note = element("orders-note", HTMLElement);
  readonly #fields = [...this.#root.querySelectorAll("th")]
    .slice(0, -1)
    .map(({ textContent }) => textContent);

  constructor(cancel: (orderId: string) => void) {
    this.#rows.addEventListener("click", ({ target }) => {
      const id = target instanceof HTMLButtonElement ? target.dataset["orderId"] : undefined;
      if (id !== undefined) cancel(id);
    });
  }

  /** Shows the orders in a response. Hides the table if the response is not a list of orders. */
  showList(answer: Answer): void {
    const orders = answer.status === 200 ? ordersIn(answer) : null;
    this.#root.hidden = orders === null;
    if (orders === null) return;
    this.#rows.replaceChildren(...orders.slice(0, MAX_ROWS).map((order) => this.#row(order)));
    const shown = Math.min(orders.length, MAX_ROWS);
    const isAll = !answer.isCut && shown === orders.length;
    this.#note.textContent = isAll
      ? `${shown} ${shown === 1 ? "order" : "orders"}`
      : `The first ${shown} orders. Cancel any other order by its id.`;
  }

  /** Shows the result of a cancellation in the row of the order, in place of the button. */
  showCancellation(orderId: string, answer: Answer): void {
    const outcome = answer.status === 204 ? "cancelled" : (codeOf(answer) ?? "");
    const note = NOTES[outcome];
    const row = [...this.#rows.children].find((one) => inside(one, "td").textContent === orderId);
    if (row === undefined || note === undefined) return;
    row.className = `settled ${outcome}`;
    row.lastElementChild?.replaceChildren(note);
  }

  hide(): void {
    this.#root.hidden = true;
  }

  #row(order: Record<string, unknown>): HTMLTableRowElement {
    const line = made("tr");
    line.setAttribute("role", "row");
    for (const field of this.#fields) {
      const value = cell(field in order ? String(order[field]) : "");
      value.dataset["field"] = field;
      line.append(value);
    }
    const id = String(order["id"]);
    const button = made("button", "Cancel");
    button.type = "button";
    button.className = "quiet";
    button.dataset["orderId"] = id;
    button.setAttribute("aria-label", `Cancel order ${id}`);
    const action = cell();
    action.append(button);
    line.append(action);
    return line;
  }
}

function cell(text = ""): HTMLTableCellElement {
  const created = made("td", text);
  created.setAttribute("role", "cell");
  return created;
}

function ordersIn({ body, isCut }: Answer): Record<string, unknown>[] | null {
  const text = isCut ? `${body.slice(0, body.lastIndexOf("},") + 1)}]` : body;
  try {
    const value = parse(text);
    return Array.isArray(value) ? (value as Record<string, unknown>[]) : null;
  } catch {
    return null;
  }
}
