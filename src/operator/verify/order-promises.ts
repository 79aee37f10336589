import type { Answer } from "./caller.ts";
import type { OwnOrders } from "./own-orders.ts";
import {
  callWithKey,
  expectAnswer,
  expectThat,
  LIST,
  type ServicePromise,
  type Trial,
  Untried,
} from "./service-promise.ts";

/** The number of simultaneous requests that cancel the same order. */
const CANCELLERS = 10;
const CANCELLED = { status: 404, code: "order_not_found" };
const SHIPPED = { status: 409, code: "order_already_shipped" };

/** The promises about orders (docs/api.md), tried on an order that the verification has placed. */
export const ORDER_PROMISES: readonly ServicePromise[] = [
  withOrders("An order is listed digit for digit", async (trial, { pending }) => {
    const list = await callWithKey(trial, LIST, { readTo: pending.id });
    expectAnswer(list, { status: 200 });
    expectThat(list, list.body.includes(pending.json), `the list lacks ${pending.json}`);
    trial.seen.list = list;
  }),
  withOrders(
    "Of simultaneous requests that cancel one order, one returns 204",
    async (trial, { pending }) => {
      const calls = Array.from({ length: CANCELLERS }, () => cancel(trial, pending.id));
      const answers = await Promise.all(calls);
      for (const answer of answers) {
        if (answer.status !== 204) expectAnswer(answer, CANCELLED);
      }
      const cancelled = answers.filter(({ status }) => status === 204);
      const [first = answers[0]] = cancelled;
      if (first !== undefined) {
        expectThat(first, cancelled.length === 1, `${cancelled.length} requests returned 204`);
      }
    },
  ),
  withOrders("Cancelling a cancelled order returns 404", async (trial, { pending }) => {
    expectAnswer(await cancel(trial, pending.id), CANCELLED);
  }),
  withOrders(
    "A list that begins after a cancellation lacks the order",
    async (trial, { pending }) => {
      const headers = { "If-None-Match": trial.seen.list?.headers.get("ETag") ?? "" };
      const list = await callWithKey(trial, LIST, { headers, readTo: pending.id });
      expectAnswer(list, { status: 200 });
      expectThat(list, !list.body.includes(pending.json), "the list has the order");
    },
  ),
  withOrders(
    "Cancelling a shipped order returns 409, and the order stays",
    async (trial, { shippedId }) => {
      if (shippedId === null) throw new Untried("none of the store's first orders has shipped");
      expectAnswer(await cancel(trial, shippedId), SHIPPED);
      const list = await callWithKey(trial, LIST, { readTo: shippedId });
      const isListed = new RegExp(`\\{"id":${shippedId}[,}]`).test(list.body);
      expectThat(list, isListed, "the list lacks the order");
    },
  ),
];

function withOrders(
  title: string,
  test: (trial: Trial, orders: OwnOrders) => Promise<void>,
): ServicePromise {
  const tryOrders = async (trial: Trial) => {
    if (trial.orders !== undefined) await test(trial, trial.orders);
  };
  return { title, needs: ["orders", "key"], test: tryOrders };
}

function cancel(trial: Trial, id: bigint): Promise<Answer> {
  return callWithKey(trial, `${LIST}/${id}`, { method: "DELETE" });
}
