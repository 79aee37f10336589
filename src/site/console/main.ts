import { type Answer, type ApiRequest, curlLine, send } from "./answer.ts";
import { AnswerView } from "./answer-view.ts";
import { element } from "./element.ts";
import { Meters, Wait } from "./limits.ts";
import { OrderTable } from "./order-table.ts";
import { copyText, enliven, KeyFields } from "./samples.ts";
import { provokeBan, provokeLimit } from "./trigger.ts";

const LIST = "/v1/store/orders";

const orderIdField = element("order-id", HTMLInputElement);
const results = element("results", HTMLElement);
const confirmCancel = element("confirm", HTMLDialogElement);
const confirmedId = element("confirm-id", HTMLElement);
const confirmBan = element("confirm-ban", HTMLDialogElement);
const triggerLimit = element("trigger-limit", HTMLButtonElement);
const triggerBan = element("trigger-ban", HTMLButtonElement);
const copyBody = element("copy-body", HTMLButtonElement);
const copyCurl = element("copy-curl", HTMLButtonElement);

const keys = new KeyFields();
const meters = new Meters();
const wait = new Wait();
const answerView = new AnswerView();
const orderTable = new OrderTable((orderId) => askToCancel(orderId));

/** Aborts the running `trigger`; `null` if none is running. */
let running: AbortController | null = null;

function show(answer: Answer): void {
  meters.show(answer);
  wait.show(answer);
  answerView.show(answer);
}

async function ask(request: Omit<ApiRequest, "headers">): Promise<Answer | null> {
  try {
    const answer = await send(keys.key, request);
    show(answer);
    return answer;
  } catch (error) {
    clear();
    answerView.showFailure(error);
    return null;
  }
}

async function list(): Promise<void> {
  const answer = await ask({ method: "GET", path: LIST });
  if (answer !== null) orderTable.showList(answer);
  bringIntoView();
}

async function cancel(orderId: string): Promise<void> {
  const path = `${LIST}/${encodeURIComponent(orderId)}`;
  const answer = await ask({ method: "DELETE", path });
  if (answer !== null) orderTable.showCancellation(orderId, answer);
}

function clear(): void {
  wait.hide();
  answerView.hide();
  orderTable.hide();
}

/** Scrolls to the response, unless it begins in the upper half of the window. */
function bringIntoView(): void {
  const { top } = results.getBoundingClientRect();
  if (top < 0 || top > innerHeight / 2) results.scrollIntoView();
}

function askToCancel(orderId: string): void {
  confirmedId.textContent = orderId;
  confirmCancel.showModal();
}

/** Provokes a 429 or a ban. Meanwhile, the button shows "Stop". */
async function trigger(button: HTMLButtonElement, isBan: boolean): Promise<void> {
  const key = keys.key;
  const label = button.textContent;
  const { signal } = (running = new AbortController());
  const provocation = {
    request: async (end: AbortSignal) => {
      const headers = { "If-None-Match": "*" };
      const answer = await send(key, { method: "GET", path: LIST, headers }, end);
      meters.show(answer);
      return answer;
    },
    say: (text: string) => answerView.say(text),
    signal,
  };
  button.textContent = "Stop";
  clear();
  try {
    const graceMs = Number(results.dataset["graceMs"]);
    const answer = await (isBan ? provokeBan(provocation, graceMs) : provokeLimit(provocation));
    show(answer);
    if (answer.status === 304) answerView.say("A new window opened before the ban. Try again.");
  } catch (error) {
    if (signal.aborted) answerView.say("Stopped.");
    else answerView.showFailure(error);
  } finally {
    running = null;
    button.textContent = label;
  }
}

for (const id of ["first-call", "list"]) {
  element(id, HTMLFormElement).addEventListener("submit", (event) => {
    event.preventDefault();
    void list();
  });
}

element("cancel", HTMLFormElement).addEventListener("submit", (event) => {
  event.preventDefault();
  const orderId = orderIdField.value.trim();
  if (orderId !== "") return askToCancel(orderId);
  clear();
  answerView.say("Which order? Enter its orderId first.");
  orderIdField.focus();
});

confirmCancel.addEventListener("submit", ({ submitter }) => {
  if (submitter?.getAttribute("value") === "go") void cancel(confirmedId.textContent);
});

triggerLimit.addEventListener("click", () => {
  if (running === null) void trigger(triggerLimit, false);
  else running.abort();
});

triggerBan.addEventListener("click", () => {
  if (running === null) confirmBan.showModal();
  else running.abort();
});

confirmBan.addEventListener("submit", ({ submitter }) => {
  if (submitter?.getAttribute("value") === "go") void trigger(triggerBan, true);
});

copyBody.addEventListener("click", () => void copyText(copyBody, answerView.body));

copyCurl.addEventListener("click", () => {
  if (answerView.request !== null) void copyText(copyCurl, curlLine(answerView.request));
});

enliven((sample) => keys.filled(sample));

// The demo keys and the commands of the project exist only where `npm start` runs.
const isLocal = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);
document.documentElement.classList.toggle("local", isLocal);

setInterval(() => {
  meters.tick();
  wait.tick();
}, 250);
