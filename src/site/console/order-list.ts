import { parse } from "lossless-json";

export type ListedOrder = Readonly<Record<string, unknown>>;

/** A list of orders as the service sent it. Integers keep every digit. */
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
      found.push(parse(order) as ListedOrder);
    }
    return found;
  }

  /** Finds an order by its id, digit for digit; `null` if the list lacks it. */
  find(id: string): ListedOrder | null {
    if (!/^-?\d+$/.test(id)) return null;
    const found = new RegExp(`\\{[^{}]*"id":${id}(?!\\d)[^{}]*\\}`).exec(this.#text);
    return found === null ? null : (parse(found[0]) as ListedOrder);
  }
}

/** Returns whether a text is a whole list: a list that broke off has no closing bracket. */
export function isWholeList(text: string): boolean {
  return /^\s*\[[^]*\]\s*$/.test(text);
}

/** An order in the text of a list. No order has braces inside. */
const ORDER = /\{[^{}]*\}/g;
