import { type Outcome, send } from "./answer.ts";
import { AnswerView } from "./answer-view.ts";
import { element } from "./element.ts";
import { Meters } from "./meters.ts";
import { OrderTable } from "./order-table.ts";
import { enliven, KeyFields } from "./samples.ts";
import { provokeBan, provokeLimit } from "./trigger.ts";
import { Work, type WorkKind } from "./work.ts";

const LIST = "/v1/store/orders";

const DOING: Readonly<Record<WorkKind, string>> = {
  list: "Listing the orders …",
  cancel: "Cancelling the order …",
  limit: "Sending requests until one is refused …",
  ban: "Sending requests until the key is banned …",
};

const orderIdField = element("order-id", HTMLInputElement);
const orderIdNote = element("order-id-note", HTMLElement);
const controls = element("controls", HTMLElement);
const results = element("results", HTMLElement);
const confirmCancel = element("confirm", HTMLDialogElement);
const confirmedId = element("confirm-id", HTMLElement);
const confirmBan = element("confirm-ban", HTMLDialogElement);
const busy = element("busy", HTMLElement);
const progress = element("progress", HTMLElement);

const keys = new KeyFields();
const meters = new Meters();
const answerView = new AnswerView();
const orderTable = new OrderTable((orderId) => askToCancel(orderId));
const work = new Work((kind) => {
  busy.hidden = kind === null;
  progress.textContent = kind === null ? "" : DOING[kind];
  for (const button of document.querySelectorAll<HTMLButtonElement>("[data-sends]")) {
    const starts = button.dataset["sends"] as WorkKind;
    button.setAttribute("aria-disabled", String(!work.canStart(starts)));
  }
});

function show(outcome: Outcome): void {
  meters.show(outcome);
  answerView.show(outcome);
}

/** Returns the key to send; `null` after saying why the text in the field is no key. */
function usableKey(): string | null {
  const { key, problem } = keys.entered;
  if (problem === null) return key;
  answerView.show({ kind: "unsent", problem });
  return null;
}

async function list(): Promise<void> {
  const key = usableKey();
  if (key === null) return bringIntoView();
  await work.start(
    "list",
    (signal) => send(key, { method: "GET", path: LIST }, signal),
    (outcome) => {
      show(outcome);
      orderTable.showList(outcome);
      bringIntoView();
    },
  );
}

async function cancel(orderId: string): Promise<void> {
  const key = usableKey();
  if (key === null) return;
  const path = `${LIST}/${encodeURIComponent(orderId)}`;
  if (work.canStart("cancel")) orderTable.showState(orderId, { settled: "", note: "Cancelling …" });
  await work.start(
    "cancel",
    (signal) => send(key, { method: "DELETE", path }, signal),
    (outcome) => {
      orderTable.showCancellation(orderId, outcome);
      show(outcome);
    },
  );
}

/** Provokes a 429 or a ban with the key that is in the field now. */
async function trigger(kind: "limit" | "ban"): Promise<void> {
  const key = usableKey();
  if (key === null) return;
  const graceMs = Number(results.dataset["graceMs"]);
  const task = async (signal: AbortSignal): Promise<Outcome> => {
    const headers = { "If-None-Match": "*" };
    const provocation = {
      signal,
      request: async (end: AbortSignal) => {
        const outcome = await send(key, { method: "GET", path: LIST, headers }, end);
        if (!signal.aborted) meters.show(outcome);
        return outcome;
      },
      say: (text: string) => {
        if (!signal.aborted) progress.textContent = text;
      },
    };
    const last = await (kind === "ban"
      ? provokeBan(provocation, graceMs)
      : provokeLimit(provocation));
    const isNewWindow = last.kind === "answer" && last.answer.status === 304;
    if (!isNewWindow || signal.aborted) return last;
    return { kind: "unsent", problem: "A new window opened before the ban. Try again." };
  };
  await work.start(kind, task, show);
}

/** Scrolls the console to the top of the window, unless its results are in the upper half. */
function bringIntoView(): void {
  const { top } = results.getBoundingClientRect();
  if (top >= 0 && top <= innerHeight / 2) return;
  controls.scrollIntoView();
  if (!controls.contains(document.activeElement)) results.focus({ preventScroll: true });
}

function askToCancel(orderId: string): void {
  if (!work.canStart("cancel")) return;
  confirmedId.textContent = orderId;
  confirmCancel.showModal();
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
  orderIdNote.textContent = orderId === "" ? "Which order? Enter its orderId first." : "";
  if (orderId !== "") askToCancel(orderId);
  else orderIdField.focus();
});

for (const [dialog, go] of [
  [confirmCancel, () => cancel(confirmedId.textContent)],
  [confirmBan, () => trigger("ban")],
] as const) {
  dialog.addEventListener("submit", ({ submitter }) => {
    // Waits until the dialog has given the focus back.
    if (submitter?.getAttribute("value") === "go") setTimeout(() => void go());
  });
}

element("trigger-limit", HTMLButtonElement).addEventListener("click", () => void trigger("limit"));
element("trigger-ban", HTMLButtonElement).addEventListener("click", () => {
  if (work.canStart("ban")) confirmBan.showModal();
});
element("stop", HTMLButtonElement).addEventListener("click", () => work.stop());

enliven((sample) => keys.filled(sample));

// The demo keys and the commands of the project exist only where `npm start` runs.
const isLocal = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);
document.documentElement.classList.toggle("local", isLocal);

setInterval(() => {
  meters.tick();
  answerView.tick();
}, 250);
