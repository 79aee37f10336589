import type { Answer } from "./caller.ts";
import type { OwnOrders } from "./own-orders.ts";
import {
  callWithKey,
  expectAnswer,
  expectThat,
  LIST,
  needsKey,
  type ServicePromise,
  type Trial,
} from "./trial.ts";

/** The number of simultaneous requests that cancel the same order. */
const CANCELLERS = 10;

/** The promises about orders (docs/api.md), tried on orders that the verification has placed. */
export function orderPromises(): readonly ServicePromise[] {
  let listed: Answer | undefined;
  const withOrders = (
    title: string,
    test: (trial: Trial, orders: OwnOrders) => Promise<void>,
  ): ServicePromise => ({
    title,
    obstacle: (trial) => (trial.orders === null ? "places orders: add --write" : needsKey(trial)),
    test: async (trial) => {
      const own = await trial.orders;
      if (own !== null) await test(trial, own);
    },
  });

  return [
    withOrders("An order is listed digit for digit", async (trial, { pending, shipped }) => {
      listed = await callWithKey(trial, LIST);
      expectAnswer(listed, 200);
      for (const { json } of [pending, shipped]) {
        expectThat(listed, listed.body.includes(json), `the list lacks ${json}`);
      }
    }),
    withOrders(
      "Of simultaneous requests that cancel one order, one returns 204",
      async (trial, { pending }) => {
        const calls = Array.from({ length: CANCELLERS }, () => cancel(trial, pending.id));
        const answers = await Promise.all(calls);
        for (const answer of answers) {
          if (answer.status !== 204) expectAnswer(answer, 404, "order_not_found");
        }
        const cancelled = answers.filter(({ status }) => status === 204);
        const [first = answers[0]] = cancelled;
        if (first !== undefined) {
          expectThat(first, cancelled.length === 1, `${cancelled.length} requests returned 204`);
        }
      },
    ),
    withOrders("Cancelling a cancelled order returns 404", async (trial, { pending }) => {
      expectAnswer(await cancel(trial, pending.id), 404, "order_not_found");
    }),
    withOrders(
      "A list that begins after a cancellation lacks the order",
      async (trial, { pending }) => {
        const condition = { "If-None-Match": listed?.headers.get("ETag") ?? "" };
        const answer = await callWithKey(trial, LIST, { headers: condition });
        expectAnswer(answer, 200);
        expectThat(answer, !answer.body.includes(pending.json), "the list has the order");
      },
    ),
    withOrders(
      "Cancelling a shipped order returns 409, and the order stays",
      async (trial, { shipped }) => {
        expectAnswer(await cancel(trial, shipped.id), 409, "order_already_shipped");
        const answer = await callWithKey(trial, LIST);
        expectThat(answer, answer.body.includes(shipped.json), "the list lacks the order");
      },
    ),
  ];
}

function cancel(trial: Trial, id: bigint): Promise<Answer> {
  return callWithKey(trial, `${LIST}/${id}`, { method: "DELETE" });
}
