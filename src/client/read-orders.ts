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

/**
 * Yields the orders of a list as they arrive, with only one part of the list in memory. Cancels the
 * request if the caller stops early.
 */
export async function* readOrders(
  answer: Answer,
  signal: AbortSignal | undefined,
): AsyncGenerator<Order, void, undefined> {
  const tokenizer = new ExactTokenizer();
  const parser = new TokenParser({ paths: ["$.*"], keepStack: false });
  let hasBegun = false;
  let orders: Order[] = [];
  let receivedCount = 0;
  tokenizer.onToken = (token) => {
    if (!hasBegun && token.token !== TokenType.LEFT_BRACKET) throw new Error("not a list");
    hasBegun = true;
    parser.write(token);
  };
  parser.onValue = ({ value }: { readonly value?: unknown }) => {
    if (!isOrder(value)) throw new Error("an element of the list is no order");
    orders.push(value);
  };
  parser.onEnd = () => tokenizer.end();
  /** Puts the orders that end in the next part into `orders`. Returns false at the end. */
  const readPart = async (): Promise<boolean> => {
    let isCutOff = true;
    try {
      orders = [];
      const part = await answer.read();
      if (part === undefined && !parser.isEnded) throw new Error("its end is missing");
      isCutOff = false;
      if (part !== undefined) tokenizer.write(part);
      return part !== undefined;
    } catch (error) {
      if (signal?.aborted) throw error;
      throw new BrokenListError(receivedCount, isCutOff, answer, error);
    }
  };
  try {
    const type = answer.headers.get("Content-Type") ?? "";
    if (!type.startsWith("application/json")) {
      throw new UnexpectedAnswerError(
        `The answer is not JSON but ${JSON.stringify(type)}. Is baseUrl the address of the service?`,
        answer,
      );
    }
    while (await readPart()) {
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
