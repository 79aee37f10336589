export type ListedOrder = Readonly<Record<string, unknown>>;

/** A list of orders, from its JSON text as the service sent it. Integers keep every digit. */
export class OrderList {
  readonly #text: string;
  readonly total: number;

  constructor(text: string) {
    this.#text = text;
    let total = 0;
    for (const _ of text.matchAll(ORDER)) total++;
    this.total = total;
  }

  first(count: number): ListedOrder[] {
    const found: ListedOrder[] = [];
    for (const [order] of this.#text.matchAll(ORDER)) {
      if (found.length === count) break;
      found.push(readOrder(order));
    }
    return found;
  }

  /** Finds an order by its id, digit for digit; `null` if the list lacks it. */
  find(id: string): ListedOrder | null {
    if (!/^-?\d+$/.test(id)) return null;
    for (const [text] of this.#text.matchAll(ORDER)) {
      // Reads only orders that may have the id, because reading every order takes longer.
      const order = text.includes(id) ? readOrder(text) : null;
      if (order?.["id"] === id) return order;
    }
    return null;
  }
}

/** Returns whether a text is a whole list: a list that broke off has no closing bracket. */
export function isWholeList(text: string): boolean {
  return /^\s*\[[^]*\]\s*$/.test(text);
}

const STRING = /"(?:[^"\\]|\\.)*"/.source;

/** An order has no objects inside, but there may be braces inside its strings. */
const ORDER = new RegExp(`\\{(?:[^{}"]|${STRING})*\\}`, "g");

const NUMBER_OR_STRING = new RegExp(`${STRING}|-?\\d[\\d.eE+-]*`, "g");

/** Parses an order. Each number becomes the text of its digits, because numbers round them. */
function readOrder(text: string): ListedOrder {
  const quoted = (found: string) => (found.startsWith('"') ? found : `"${found}"`);
  return JSON.parse(text.replace(NUMBER_OR_STRING, quoted));
}
