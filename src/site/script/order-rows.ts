import { inside, made } from "./element.ts";
import { type ListedOrder, OrderList } from "./order-list.ts";
import { countText, type RowState } from "./view.ts";

const MAX_ROWS = 100;

/** The newest complete list, with the outcome of each cancellation in the row of its order. */
export class OrderRows {
  readonly #root: HTMLElement;
  readonly #rows: HTMLElement;
  readonly #note: HTMLElement;
  readonly #find: HTMLInputElement;
  readonly #states = new Map<string, RowState & { readonly atMs: number }>();
  #list = new OrderList();

  /** @param cancel is called with the id of the order whose button was pressed. */
  constructor(root: HTMLElement, cancel: (orderId: string) => void) {
    this.#root = root;
    this.#rows = inside(root, "ul");
    this.#note = inside(root, ".note");
    this.#find = inside(root, "input") as HTMLInputElement;
    this.#rows.addEventListener("click", ({ target }) => {
      const row = target instanceof HTMLButtonElement ? target.closest("li") : null;
      if (row?.dataset["id"] !== undefined) cancel(row.dataset["id"]);
    });
    this.#find.addEventListener("input", () => this.#draw());
  }

  /** Shows a list, and of cancellations only those that ended after the list was requested. */
  showList(list: OrderList, requestedMs: number): void {
    this.#list = list;
    for (const [id, { atMs }] of this.#states) if (atMs < requestedMs) this.#states.delete(id);
    this.#find.value = "";
    inside(this.#root, "label").hidden = list.total <= 1;
    this.#root.hidden = false;
    this.#draw();
  }

  /** Shows what became of a cancellation in the row of the order. */
  showState(id: string, state: RowState): void {
    this.#states.set(id, { ...state, atMs: performance.now() });
    const row = this.#rows.querySelector<HTMLElement>(`[data-id="${CSS.escape(id)}"]`);
    if (row !== null) this.#drawState(row);
    this.#drawNote();
  }

  #draw(): void {
    const id = this.#find.value.trim();
    const found = id === "" ? null : this.#list.find(id);
    const orders = id === "" ? this.#list.first(MAX_ROWS) : found === null ? [] : [found];
    this.#rows.replaceChildren(...orders.map((order) => this.#row(order)));
    this.#drawNote();
  }

  #drawNote(): void {
    const gone = [...this.#states].filter(([id, { settled }]) => {
      return /^(?:cancelled|order_not_found)$/.test(settled) && this.#list.find(id) !== null;
    });
    const isFinding = this.#find.value.trim() !== "";
    const rows = this.#rows.children.length;
    this.#note.textContent = countText(this.#list.total, gone.length, rows, isFinding);
  }

  #row({ id, ...fields }: ListedOrder): HTMLElement {
    const row = made("li");
    row.dataset["id"] = String(id);
    const button = made("button", "Cancel", "quiet");
    button.type = "button";
    button.setAttribute("aria-label", `Cancel order ${String(id)}`);
    const state = made("span", "", "row-note");
    state.tabIndex = -1;
    const values = made("p");
    for (const [name, value] of Object.entries(fields)) {
      const field = made("span", String(value));
      field.prepend(made("i", name), " ");
      values.append(field, " ");
    }
    row.append(made("code", String(id)), state, button, values);
    this.#drawState(row);
    return row;
  }

  /** Draws the note of a row. Hides its button if the fate of its order is settled. */
  #drawState(row: HTMLElement): void {
    const state = this.#states.get(row.dataset["id"] ?? "");
    const note = inside(row, ".row-note");
    const button = inside(row, "button");
    note.textContent = state?.note ?? "";
    row.className = state?.settled ? `settled ${state.settled}` : "";
    // A hidden button would lose the focus, and a keyboard its place in the list.
    if (state?.settled && document.activeElement === button) note.focus();
    button.hidden = Boolean(state?.settled);
  }
}
