import type { Answer } from "./answer.ts";
import { BrokenListError, UnexpectedAnswerError } from "./errors.ts";
import { OrderParser } from "./order-parser.ts";
import type { Order } from "./order.ts";

/**
 * Yields the orders of a list as they arrive. At the end, or if the caller stops early, cancels the
 * request.
 *
 * @throws {BrokenListError} if the list is incomplete or malformed.
 * @throws {UnexpectedAnswerError} if the response is not JSON.
 */
export async function* readOrders(
  answer: Answer,
  signal: AbortSignal | undefined,
): AsyncGenerator<Order, void, undefined> {
  const parser = new OrderParser();
  let receivedCount = 0;
  try {
    if (!answer.contentType.startsWith("application/json")) {
      throw new UnexpectedAnswerError(
        `The answer is not JSON but ${JSON.stringify(answer.contentType)}. Is baseUrl the address of the service?`,
        answer,
      );
    }
    for (;;) {
      const orders = await nextOrders(answer, parser, receivedCount, signal);
      if (orders === undefined) return;
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

/** Reads the orders in the next part of the body; returns `undefined` after a complete list. */
async function nextOrders(
  answer: Answer,
  parser: OrderParser,
  receivedCount: number,
  signal: AbortSignal | undefined,
): Promise<readonly Order[] | undefined> {
  const broken = (why: string, options?: ErrorOptions): BrokenListError =>
    new BrokenListError(
      `The list broke off after ${receivedCount} orders: ${why}. ` +
        "Read it again from its beginning, or set oneMoment, which does that for you.",
      receivedCount,
      answer,
      options,
    );
  try {
    const part = await answer.read();
    if (part !== undefined) return parser.parse(part);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw broken(error instanceof Error ? error.message : String(error), { cause: error });
  }
  if (!parser.isWhole) throw broken("its end is missing");
  return undefined;
}
