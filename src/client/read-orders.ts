import { Tokenizer, TokenParser, TokenType } from "@streamparser/json";
import { BrokenListError, UnexpectedAnswerError } from "./errors.ts";
import { isOrder, type Order } from "./order.ts";
import type { Answer } from "./send.ts";

/** A JSON tokenizer that reads integers as bigint, because a `number` above 2^53 is rounded. */
class ExactTokenizer extends Tokenizer {
  protected override parseNumber(text: string): number {
    const value = /^-?\d+$/.test(text) ? BigInt(text) : Number(text);
    // The cast is safe, because the JSON parser library passes the number on without using it.
    return value as number;
  }
}

/** Parses a JSON list of orders incrementally, with only one part of the list in memory. */
class OrderParser {
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

  /**
   * Returns the orders that end in the next part of the list. At the end of the body, `part` is
   * `undefined`, and so is the result. Throws if the list is incomplete or malformed.
   */
  parse(part: Uint8Array | undefined): readonly Order[] | undefined {
    this.#orders = [];
    if (part !== undefined) this.#tokenizer.write(part);
    else if (this.#parser.isEnded) return undefined;
    else throw new Error("its end is missing");
    return this.#orders;
  }
}

/** Yields the orders of a list as they arrive. Cancels the request if the caller stops early. */
export async function* readOrders(
  answer: Answer,
  signal: AbortSignal | undefined,
): AsyncGenerator<Order, void, undefined> {
  const parser = new OrderParser();
  let receivedCount = 0;
  const nextOrders = async (): Promise<readonly Order[] | undefined> => {
    try {
      return parser.parse(await answer.read());
    } catch (error) {
      if (signal?.aborted) throw error;
      throw new BrokenListError(
        `The list broke off after ${receivedCount} orders: ${error instanceof Error ? error.message : String(error)}. ` +
          "Read it again from its beginning, or set oneMoment, which does that for you.",
        receivedCount,
        answer,
        { cause: error },
      );
    }
  };
  try {
    if (!answer.contentType.startsWith("application/json")) {
      throw new UnexpectedAnswerError(
        `The answer is not JSON but ${JSON.stringify(answer.contentType)}. Is baseUrl the address of the service?`,
        answer,
      );
    }
    for (let orders = await nextOrders(); orders !== undefined; orders = await nextOrders()) {
      for (const order of orders) {
        receivedCount += 1;
        yield order;
        signal?.throwIfAborted();
      }
    }
  } finally {
    answer.abort();
  }
}
