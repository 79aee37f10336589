import { parse } from "lossless-json";
import type { Answer } from "./answer.ts";
import { element, inside, made } from "./element.ts";

/** The most rows of the table. */
const MAX_ROWS = 100;

const FIELDS = ["id", "petId", "quantity", "shipDate", "complete"] as const;

/** A table of orders, each with a button that cancels it. Integers keep every digit. */
export class OrderTable {
  readonly #root = element("orders", HTMLElement);
  readonly #rows = inside(this.#root, "tbody");
  readonly #note = element("orders-note", HTMLElement);

  /** @param cancel is called with the id of the order whose button was pressed. */
  constructor(cancel: (orderId: string) => void) {
    this.#rows.addEventListener("click", ({ target }) => {
      const id = target instanceof HTMLButtonElement ? target.dataset["orderId"] : undefined;
      if (id !== undefined) cancel(id);
    });
  }

  /** Shows the orders of a list; hides the table after any other answer. */
  show(answer: Answer): void {
    const orders = answer.status === 200 ? ordersIn(answer) : null;
    this.#root.hidden = orders === null;
    if (orders === null) return;
    this.#rows.replaceChildren(...orders.slice(0, MAX_ROWS).map(row));
    const shown = Math.min(orders.length, MAX_ROWS);
    const isAll = !answer.isCut && shown === orders.length;
    this.#note.textContent = isAll
      ? `${shown} ${shown === 1 ? "order" : "orders"}`
      : `The first ${shown} orders. Cancel any other order by its id.`;
  }
}

function row(order: Record<string, unknown>): HTMLTableRowElement {
  const line = made("tr");
  for (const field of FIELDS) line.append(made("td", field in order ? String(order[field]) : ""));
  const id = String(order["id"]);
  const button = made("button", "Cancel");
  button.type = "button";
  button.className = "danger small";
  button.dataset["orderId"] = id;
  button.setAttribute("aria-label", `Cancel order ${id}`);
  const cell = made("td");
  cell.append(button);
  line.append(cell);
  return line;
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
