import { Tokenizer, TokenParser, TokenType } from "@streamparser/json";
import { isOrder, type Order } from "./order.ts";

/** Reads integers as bigint, because numbers above 2^53 are rounded. */
class ExactTokenizer extends Tokenizer {
  protected override parseNumber(text: string): number {
    const value = /^-?\d+$/.test(text) ? BigInt(text) : Number(text);
    // The library only passes the value on.
    return value as number;
  }
}

/** Parses a list of orders as it arrives, with no more than one part in memory. */
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

  /** Whether the closing bracket has arrived. */
  get isWhole(): boolean {
    return this.#parser.isEnded;
  }

  /**
   * @returns the orders that end in this part.
   * @throws {Error} that says what is wrong with the list.
   */
  parse(part: Uint8Array): readonly Order[] {
    this.#orders = [];
    this.#tokenizer.write(part);
    return this.#orders;
  }
}
