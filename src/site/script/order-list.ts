export type ListedOrder = Readonly<Record<string, unknown>>;

/** A list of orders, from the parts of its JSON text. Integers keep every digit. */
export class OrderList {
  readonly #orders: string[] = [];
  /** The text after the last complete order. */
  #rest = "";
  #isMalformed = false;

  get total(): number {
    return this.#orders.length;
  }

  /** Returns whether the parts so far are a whole list: one that broke off has no bracket at its end. */
  get isWhole(): boolean {
    const end = this.total === 0 ? /^\s*\[\s*\]\s*$/ : /^\s*\]\s*$/;
    return !this.#isMalformed && end.test(this.#rest);
  }

  read(part: string): void {
    const text = this.#rest + part;
    let end = 0;
    for (const { 0: order, index } of text.matchAll(ORDER)) {
      const expected = this.total === 0 ? "[" : ",";
      if (text.slice(end, index).trim() !== expected) this.#isMalformed = true;
      this.#orders.push(order);
      end = index + order.length;
    }
    this.#rest = text.slice(end);
  }

  first(count: number): ListedOrder[] {
    return this.#orders.slice(0, count).map(readOrder);
  }

  /** Finds an order by its id, digit for digit; `null` if the list lacks it. */
  find(id: string): ListedOrder | null {
    if (!/^-?\d+$/.test(id)) return null;
    // Reads only orders that may have the id, because reading every order takes longer.
    const found = this.#orders.find((text) => {
      const mayBe = text.includes(`"id":${id},`) || text.includes(`"id":${id}}`);
      return mayBe && readOrder(text)["id"] === id;
    });
    return found === undefined ? null : readOrder(found);
  }
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
