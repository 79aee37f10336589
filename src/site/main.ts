import { type Answer, type ApiRequest, send } from "./answer.ts";
import { AnswerView } from "./answer-view.ts";
import { Countdown } from "./countdown.ts";
import { element } from "./element.ts";
import { Meters } from "./meters.ts";
import { OrderTable } from "./order-table.ts";
import { showReference } from "./viewer.ts";

const LIST = "/v1/store/orders";

const keyField = element("key", HTMLInputElement);
const orderIdField = element("order-id", HTMLInputElement);
const exhaustForm = element("exhaust", HTMLFormElement);
const confirmDialog = element("confirm", HTMLDialogElement);

const meters = new Meters();
const countdown = new Countdown();
const answerView = new AnswerView();
const orderTable = new OrderTable((orderId) => confirmCancel(orderId));

/** Stops "Use up the minute"; `null` while that does not run. */
let exhausting: AbortController | null = null;

function show(answer: Answer): void {
  meters.show(answer);
  countdown.show(answer);
  orderTable.show(answer);
  answerView.show(answer);
}

async function ask(request: ApiRequest): Promise<void> {
  try {
    show(await send(keyField.value.trim(), request));
  } catch (error) {
    answerView.showFailure(error);
  }
}

function confirmCancel(orderId: string): void {
  element("confirm-id", HTMLElement).textContent = orderId;
  confirmDialog.returnValue = "keep";
  confirmDialog.showModal();
}

async function exhaust(signal: AbortSignal): Promise<void> {
  const request = { method: "GET", path: LIST, headers: { "If-None-Match": "*" } } as const;
  for (let sent = 1; !signal.aborted; sent++) {
    const answer = await send(keyField.value.trim(), request, signal);
    meters.show(answer);
    if (answer.status !== 304) return show(answer);
    answerView.say(`${sent} requests sent, all admitted.`);
  }
}

async function exhaustUntilRefused(): Promise<void> {
  const button = element("exhaust-button", HTMLButtonElement);
  exhausting = new AbortController();
  button.textContent = "Stop";
  try {
    await exhaust(exhausting.signal);
  } catch (error) {
    if (exhausting.signal.aborted) answerView.say("Stopped.");
    else answerView.showFailure(error);
  } finally {
    exhausting = null;
    button.textContent = "Use up the minute";
  }
}

element("list", HTMLFormElement).addEventListener("submit", (event) => {
  event.preventDefault();
  void ask({ method: "GET", path: LIST });
});

element("cancel", HTMLFormElement).addEventListener("submit", (event) => {
  event.preventDefault();
  const orderId = orderIdField.value.trim();
  if (orderId !== "") return confirmCancel(orderId);
  answerView.say("Which order? Enter its orderId first.");
  orderIdField.focus();
});

confirmDialog.addEventListener("close", () => {
  if (confirmDialog.returnValue !== "cancel") return;
  const orderId = element("confirm-id", HTMLElement).textContent;
  void ask({ method: "DELETE", path: `${LIST}/${encodeURIComponent(orderId)}` });
});

exhaustForm.addEventListener("submit", (event) => {
  event.preventDefault();
  if (exhausting === null) void exhaustUntilRefused();
  else exhausting.abort();
});

element("key-show", HTMLButtonElement).addEventListener("click", ({ currentTarget }) => {
  const button = currentTarget as HTMLButtonElement;
  const isShown = keyField.type === "password";
  keyField.type = isShown ? "text" : "password";
  button.setAttribute("aria-pressed", String(isShown));
});

element("skip", HTMLAnchorElement).addEventListener("click", (event) => {
  event.preventDefault();
  keyField.focus();
});

setInterval(() => {
  meters.tick();
  countdown.tick();
}, 250);

await showReference();
