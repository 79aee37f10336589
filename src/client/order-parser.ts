import { Tokenizer, TokenParser, TokenType } from "@streamparser/json";
import { isOrder, type Order } from "./order.ts";

/** A JSON tokenizer that reads integers as bigint, because a `number` above 2^53 is rounded. */
class ExactTokenizer extends Tokenizer {
  protected override parseNumber(text: string): number {
    const value = /^-?\d+$/.test(text) ? BigInt(text) : Number(text);
    // The cast is safe, because the JSON parser library passes the number on without using it.
    return value as number;
  }
}

/** Parses a JSON list of orders incrementally, with only one part of the list in memory. */
export class OrderParser {
  readonly #tokenizer = new ExactTokenizer();
  readonly #parser = new TokenParser({ paths: ["$.*"], keepStack: false });
  #orders: Order[] = [];
  #hasBegun = false;

  constructor() {
    this.#tokenizer.onToken = (token) => {
      if (!this.#hasBegun && token.token !== TokenType.LEFT_BRACKET) throw new Error("not a list");
      this.#hasBegun = true;
      this.#parser.write(token);
    };
    this.#parser.onValue = ({ value }: { readonly value?: unknown }) => {
      if (!isOrder(value)) throw new Error("an element of the list is no order");
      this.#orders.push(value);
    };
    this.#parser.onEnd = () => this.#tokenizer.end();
  }

  /** True if the closing bracket of the list has arrived. */
  get isWhole(): boolean {
    return this.#parser.isEnded;
  }

  /**
   * Parses the next part of the list.
   *
   * @returns the orders whose last byte is in this part.
   * @throws {Error} if the list is malformed; the message says why.
   */
  parse(part: Uint8Array): readonly Order[] {
    this.#orders = [];
    this.#tokenizer.write(part);
    return this.#orders;
  }
}
